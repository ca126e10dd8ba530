#!/usr/bin/env python3
"""Writes the ladders' measurements, from the gpu.json of tests/gpu/run, into the tables of kernels/cuda/README.md.

    tests/gpu/ladders.py GPU.JSON              print the tables with the measurements
    tests/gpu/ladders.py GPU.JSON --update     write them there

The last two columns of each table then have the rates, with the GPU's name and the day, and their shares of the rate
with which they are compared: of a copy, or of a large product in the same type. A new run replaces them.
"""
import argparse
import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "kernels" / "cuda" / "README.md"
TABLE = re.compile(
    r"(<!-- ladder: (.*?), of (.*?); written by tests/gpu/ladders\.py -->\n)(.*?)(<!-- end of ladder -->\n)", re.S)
COLUMN = "measured ("


def refuse(words):
    sys.exit(f"ladders.py: {words}")


def rates(run):
    """Returns {(kernel, step): (rate, percent of the yardstick, yardstick)} of a run, the rates in words.

    The step of the kernel in use, which bench_gpu also measures, is "in use".
    """
    found, yardsticks = {}, {}
    for figure in run["figures"]:
        name, value, unit = figure["name"], figure["value"], figure["unit"]
        if name == "copy" or name.startswith("large product "):
            yardsticks[name.removeprefix("large product ")] = value
            continue
        step = re.fullmatch(r"(.+), step (\d+): (.*)", name)
        alone = re.fullmatch(r"(.+) bf16", name)
        if step:
            key = step[1], step[3] if step[3] == "in use" else int(step[2])
        elif alone:
            key = alone[1], "in use"
        else:
            continue
        if unit == "% of copy":
            rate = float(figure["detail"].split(" ")[0])
            found[key] = f"{digits(rate)} GB/s", value, digits(yardsticks["copy"])
        elif unit == "TFLOP/s":
            dtype = "f32" if step and step[3].endswith("f32") else "bf16"
            found[key] = f"{digits(value)} {unit}", 100 * value / yardsticks[dtype], f"{digits(yardsticks[dtype])} ({dtype})"
    return found


def digits(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_with(text, kernel, yardstick, found, where):
    """Returns a table with two columns of measurements, in place of earlier ones."""
    rows = [cells(line) for line in text.splitlines()]
    if rows[0][-2].startswith(COLUMN):
        rows = [row[:-2] for row in rows]
    rows[0] += [f"{COLUMN}{where})", f"of {yardstick}"]
    rows[1] += ["---", "---"]
    for row in rows[2:]:
        rate, percent, best = found.get((kernel, "in use" if row is rows[-1] else int(row[0])), ("not measured", None, None))
        row += [rate, "" if percent is None else f"{percent:.3g} % of {best}"]
    lines = ["| " + " | ".join(row) + " |\n" for row in rows]
    lines[1] = "|" + "---|" * len(rows[1]) + "\n"
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path, metavar="GPU.JSON")
    parser.add_argument("--update", action="store_true", help="write the tables to kernels/cuda/README.md")
    options = parser.parse_args()
    try:
        run = json.loads(options.run.read_text())
        found = rates(run)
    except (OSError, ValueError, KeyError, TypeError) as error:
        refuse(f"{options.run} is not the gpu.json of a run: {error}")
    if run.get("emulated") or not any(", step " in figure["name"] for figure in run["figures"]):
        refuse(f"{options.run} has no measurements of the ladders: run 'tests/gpu/run --only bench' on a GPU")
    where = f"{run['gpu'].removeprefix('1 x ')}, {run['when'][:10]}"

    def measured(match):
        head, kernel, yardstick, text, end = match.groups()
        return head + table_with(text, kernel, yardstick, found, where) + end

    page = PAGE.read_text()
    if options.update:
        PAGE.write_text(TABLE.sub(measured, page))
    else:
        print("\n".join(measured(match) for match in TABLE.finditer(page)), end="")


if __name__ == "__main__":
    main()
