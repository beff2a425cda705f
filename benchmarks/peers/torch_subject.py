"""What is timed on PyTorch's side: a training step or a deployed net's forward pass, and its results to compare."""
import json
import time

import torch
from torch import nn

import torch_nets


def read_tensors(path):
    """(name, tensor) of a file as benchmarks/ours/tensor_file.h describes it."""
    with open(path, "rb") as file:
        head = json.loads(file.readline())
        for entry in head:
            shape = torch.Size(entry["shape"])
            values = torch.frombuffer(bytearray(file.read(4 * shape.numel())), dtype=torch.float32)
            yield entry["name"], values.reshape(shape)


def gates_of_caffe(tensor):
    """Rows by gate, from PyTorch's order i, f, g, o to Caffe's i, f, o, g; it is its own inverse."""
    i, f, g, o = tensor.chunk(4)
    return torch.cat([i, f, o, g])


class Pairs:
    """The blobs of a Caffe net, in its order, and where they are in the module: (set a blob, read its momentum)."""

    def __init__(self, model, momentum):
        self.momentum = momentum  # parameter -> its momentum buffer
        self.blobs = []
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                self._plain(module.weight)
                if module.bias is not None:
                    self._plain(module.bias)
            elif isinstance(module, nn.BatchNorm2d):
                self.blobs += [(module.running_mean.copy_, None), (module.running_var.copy_, None), (_check_one, None)]
                self._plain(module.weight)
                self._plain(module.bias)
            elif isinstance(module, nn.LSTM):
                for layer in range(module.num_layers):
                    self._lstm(*(getattr(module, f"{kind}_l{layer}")
                                 for kind in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")))

    def _plain(self, parameter):
        self.blobs.append((lambda value: parameter.copy_(value.reshape(parameter.shape)),
                           lambda: self.momentum(parameter)))

    def _lstm(self, weight_x, bias_x, weight_h, bias_h):
        def gated(parameter):
            return (lambda value: parameter.copy_(gates_of_caffe(value)),
                    lambda: gates_of_caffe(self.momentum(parameter)))

        with torch.no_grad():
            bias_h.zero_()  # Caffe has one bias; both get the same gradient
        self.blobs += [gated(weight_x), gated(bias_x), gated(weight_h)]


def _check_one(value):
    if value.numel() != 1 or value.item() not in (0, 1):
        raise ValueError(f"BatchNorm's factor is {value}: its statistics would have to be divided by it")


TINY = 1e-300


def distance(ours, theirs):
    """(|ours - theirs|, |theirs|) in the 2-norm."""
    ours, theirs = ours.double().flatten(), theirs.double().flatten()
    return (ours - theirs).norm().item(), theirs.norm().item()


def relative_error(ours, theirs):
    difference, scale = distance(ours, theirs)
    return difference / max(scale, TINY)


class Subject:
    def __init__(self, net, mode, batch, threads, layout, dropout=True):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.deploy = mode == "deploy"
        self.model = torch_nets.NETS[net][0](self.deploy).train(not self.deploy)
        self.data, self.label = torch_nets.draw_inputs(net, batch)
        self.format = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        if layout == "nhwc":
            self.model = self.model.to(memory_format=self.format)
            self.data = self.data.contiguous(memory_format=self.format)
        if not dropout:
            for module in self.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        # The form of SGD that updates all parameters in one call.
        self.optimizer = None if self.deploy else torch.optim.SGD(
            self.model.parameters(), lr=1e-6, momentum=0.9, weight_decay=5e-4, fused=True)

    def iterate(self):
        if self.deploy:
            with torch.inference_mode():
                return torch.softmax(self.model(self.data), -1)
        loss = torch_nets.loss_of(self.model(self.data), self.label)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def run(self, iterations):
        seconds = []
        for _ in range(iterations):
            start = time.perf_counter()
            self.iterate()
            seconds.append(time.perf_counter() - start)
        return seconds

    def compare(self, start, result):
        """Begins with the inputs and parameters of `start`, runs once, and tells the distance from `result`:
        {"loss" or "scores": relative error, "gradients": the largest of the parameters', "worst": its name, "whole": of
        all gradients as one vector}."""
        pairs = Pairs(self.model, lambda p: self.optimizer.state[p]["momentum_buffer"])
        blobs = iter(pairs.blobs)
        names = []
        with torch.no_grad():
            for name, value in read_tensors(start):
                if name == "data":
                    self.data = value.contiguous(memory_format=self.format)
                elif name == "label":
                    self.label = value.long()
                elif name != "cont":
                    next(blobs)[0](value)
                    names.append(name)
        if len(names) != len(pairs.blobs):
            raise ValueError(f"the prototxt has {len(names)} blobs, the module {len(pairs.blobs)}")
        expected = read_tensors(result)
        if self.deploy:
            with torch.inference_mode():
                return {"scores": relative_error(next(expected)[1], self.model(self.data))}
        report = {"loss": relative_error(next(expected)[1], self.iterate().detach()), "gradients": 0.0, "worst": ""}
        distances = {}
        for name, (_, momentum) in zip(names, pairs.blobs):
            if momentum is None:
                continue
            ours = next(expected)
            if ours[0] != name:
                raise ValueError(f"{ours[0]} was expected to be {name}")
            distances[name] = distance(ours[1], momentum())
        whole = [sum(x * x for x in part) ** 0.5 for part in zip(*distances.values())]
        report["whole"] = whole[0] / max(whole[1], TINY)
        # A gradient that is 0 but for rounding (a bias before BatchNorm) is no scale.
        least = max(1e-4 * max(scale for _, scale in distances.values()), TINY)
        for name, (difference, scale) in distances.items():
            error = difference / max(scale, least)
            if not error <= report["gradients"]:
                report["gradients"], report["worst"] = error, name
        return report
