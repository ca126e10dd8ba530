#!/usr/bin/env python3
"""Writes the ladders' measurements, from the gpu.json of tests/gpu/run, into the tables of kernels/cuda/README.md.

    tests/gpu/ladders.py GPU.JSON              print the tables with the measurements
    tests/gpu/ladders.py GPU.JSON --update     write them there

The last column of each table then has the percentages, with the GPU's name and the day. A new run replaces them.
"""
import argparse
import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "kernels" / "cuda" / "README.md"
TABLE = re.compile(
    r"(<!-- ladder: (.*?), of (.*?); written by tests/gpu/ladders\.py -->\n)(.*?)(<!-- end of ladder -->\n)", re.S)
COLUMN = "measured, % of "


def refuse(words):
    sys.exit(f"ladders.py: {words}")


def percentages(run):
    """Returns {(kernel, step): percent of a copy's bandwidth or of a large product's rate} of a run's ladders."""
    found, rates = {}, {}
    for figure in run["figures"]:
        name, value = figure["name"], figure["value"]
        if name.startswith("large product "):
            rates[name.removeprefix("large product ")] = value
        step = re.fullmatch(r"(.+), step (\d+): .*?(f32)?", name)
        if step and figure["unit"] == "% of copy":
            found[step[1], int(step[2])] = value
        elif step:
            found[step[1], int(step[2])] = 100 * value / rates[step[3] or "bf16"]
    return found


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_with(text, kernel, yardstick, percent, where):
    """Returns a table with a column of measurements, in place of an earlier one."""
    rows = [cells(line) for line in text.splitlines()]
    if rows[0][-1].startswith(COLUMN):
        rows = [row[:-1] for row in rows]
    rows[0].append(f"{COLUMN}{yardstick} ({where})")
    rows[1].append("---")
    for row in rows[2:]:
        value = percent.get((kernel, int(row[0])))
        row.append("not measured" if value is None else f"{value:.3g}")
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
        percent = percentages(run)
    except (OSError, ValueError, KeyError, TypeError) as error:
        refuse(f"{options.run} is not the gpu.json of a run: {error}")
    if run.get("emulated") or not percent:
        refuse(f"{options.run} has no measurements of the ladders: run 'tests/gpu/run --only bench' on a GPU")
    where = f"{run['gpu'].removeprefix('1 x ')}, {run['when'][:10]}"

    def measured(match):
        head, kernel, yardstick, text, end = match.groups()
        return head + table_with(text, kernel, yardstick, percent, where) + end

    page = PAGE.read_text()
    if options.update:
        PAGE.write_text(TABLE.sub(measured, page))
    else:
        print("\n".join(measured(match) for match in TABLE.finditer(page)), end="")


if __name__ == "__main__":
    main()
