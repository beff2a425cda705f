"""Where our time goes: the slowest layers, by `carafe time`."""
import re
import subprocess

LINE = re.compile(r"\]\s+(\S+)\t(forward|backward): ([0-9.e+-]+) ms")


def parse(log):
    """{layer: [forward ms, backward ms]} in the order of the net."""
    times = {}
    for name, direction, value in LINE.findall(log):
        times.setdefault(name, [0.0, 0.0])[direction == "backward"] = float(value)
    return times


def table(times, most=15):
    total = sum(map(sum, times.values())) or 1.0
    ordered = sorted(times.items(), key=lambda item: -sum(item[1]))
    width = max([len(name) for name, _ in ordered[:most]] + [5])
    lines = [f"{'layer':{width}}  forward ms  backward ms  share"]
    for name, (forward, backward) in ordered[:most]:
        lines.append(f"{name:{width}}  {forward:10.2f}  {backward:11.2f}  {(forward + backward) / total:5.1%}")
    rest = ordered[most:]
    if rest:
        forward, backward = (sum(values) for values in zip(*(times for _, times in rest)))
        lines.append(f"{f'{len(rest)} more':{width}}  {forward:10.2f}  {backward:11.2f}  {(forward + backward) / total:5.1%}")
    forward, backward = (sum(values) for values in zip(*times.values()))
    lines.append(f"{'all':{width}}  {forward:10.2f}  {backward:11.2f}")
    return "\n".join(lines)


def run(program, model, threads, iterations):
    """The log of `carafe time` on a net in training."""
    done = subprocess.run([str(program), "time", f"--model={model}", f"--iterations={iterations}",
                           f"--threads={threads}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"carafe time ended with code {done.returncode}")
    return done.stderr + done.stdout
