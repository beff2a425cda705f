"""What is raced: nets, modes, batches, threads."""
import dataclasses

from race import nets

DEPLOY_BATCHES = (1, 16)


@dataclasses.dataclass(frozen=True)
class Case:
    net: str
    mode: str  # "train": a step with update; "deploy": a forward pass
    batch: int
    threads: int

    @property
    def title(self):
        return f"{self.net} {self.mode} batch {self.batch}, {self.threads} thread{'s' if self.threads > 1 else ''}"

    @property
    def layouts(self):
        """PyTorch's memory formats that make sense."""
        return ("nchw",) if self.net == "lstm" else ("nchw", "nhwc")

    @property
    def has_dropout(self):
        return self.mode == "train" and any(
            layer["type"] == "Dropout" for layer in nets.message(self.net, self.mode, self.batch)["layer"])


def all_cases(names, modes, threads, deploy_batches=DEPLOY_BATCHES):
    return [Case(net, mode, batch, count)
            for mode in modes for net in names
            for batch in ([nets.train_batch(net)] if mode == "train" else deploy_batches) for count in threads]
