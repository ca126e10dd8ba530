#!/usr/bin/env python3
"""Lists the registers, spilled bytes and static shared memory of each CUDA kernel, as nvcc's ptxas reports them.

    tests/gpu/registers.py                print the table of kernels/cuda/README.md
    tests/gpu/registers.py --update       write it there
    tests/gpu/registers.py --every        one row for each instantiation of a template
    tests/gpu/registers.py --variants     print the table of tests/gpu/variants, for Hopper alone

Exit code 1 if ptxas serializes the products of a kernel (wgmma), of which it only informs (C7512, C7520 and others),
or if a variant spills.

Needs nvcc, but no GPU. It compiles every kernels/cuda/*.cu for each architecture with the flags of the build,
one at a time, which takes up to a minute each; build/registers keeps the reports of files that have not changed.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "registers"
VARIANTS = ROOT / "tests" / "gpu" / "variants"
PAGE = ROOT / "kernels" / "cuda" / "README.md"
ARCHITECTURES = [80, 90, 100]
FIRST, LAST = "<!-- registers: written by tests/gpu/registers.py --update -->", "<!-- end of registers -->"


def commands():
    """Configures a build and returns its compile command of each kernel file, without the architecture, and its folder."""
    BUILD.mkdir(parents=True, exist_ok=True)
    said = subprocess.run(
        ["cmake", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CUDA_ARCHITECTURES=80-real",
         "-DLOCKSTEP_VIEWER=OFF", "-DLOCKSTEP_BENCH=OFF", "-DLOCKSTEP_TESTS=OFF", "-DLOCKSTEP_WERROR=OFF"],
        capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"registers.py: cmake failed:\n{said.stderr}")
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.suffix != ".cu" or path.parent != ROOT / "kernels" / "cuda":
            continue
        words = shlex.split(entry["command"])
        del words[words.index("-o"):words.index("-o") + 2]
        words = [word for word in words if not word.startswith("--generate-code") and word not in ("-c", str(path))]
        found[path] = words, entry["directory"]
    if not found:
        sys.exit("registers.py: the build has no kernels; is there an nvcc?")
    return found


def variant_commands():
    """Returns the same for the variants: the flags of a kernel file that has none of its own."""
    words, folder = commands()[ROOT / "kernels" / "cuda" / "attention_forward.cu"]
    return {path: (words, folder) for path in VARIANTS.glob("*.cu")}


def report(path, command, architecture):
    """Returns what ptxas says about a file, compiled for an architecture; from build/registers if that is newer."""
    kept = BUILD / f"{path.stem}.sm_{architecture}.txt"
    kernels = ROOT / "kernels"
    sources = [path, *path.parent.glob("*.*h"), *(kernels / "cuda").glob("*.*h"), *kernels.glob("*.h")]
    if kept.exists() and kept.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return kept.read_text()
    print(f"{path.name} for sm_{architecture}", file=sys.stderr, flush=True)
    words, folder = command
    said = subprocess.run([*words, f"-arch=sm_{architecture}", "-cubin", "-Xptxas=-v", str(path), "-o", "/dev/null"],
                          cwd=folder, capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"registers.py: {path.name} does not compile:\n{said.stderr[:2000]}")
    kept.write_text(said.stdout + said.stderr)
    return kept.read_text()


ENTRY = re.compile(r"Compiling entry function '(\S+)' for.*\n(?:.*\n)*?"
                   r" *(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
                   r".*Used (\d+) registers(.*)")


SERIALIZED = re.compile(r"\(C75\d\d\).*wgmma.*")


def serialized(path, text):
    """Returns the lines in which ptxas says that it serializes products."""
    found = SERIALIZED.findall(text)
    lines = subprocess.run(["c++filt"], input="\n".join(found), capture_output=True, text=True, check=True).stdout
    return [f"{path.name}: {line}" for line in lines.splitlines()]


def instances(all_commands, architectures, complaints):
    """Returns {(file, demangled name): {architecture: (registers, spilled bytes, shared bytes)}}, without CUB's kernels,
    and adds what ptxas says about serialized products to `complaints`."""
    found = {}
    for path, command in sorted(all_commands.items()):
        for architecture in architectures:
            complaints += serialized(path, report(path, command, architecture))
            for name, _, stores, loads, registers, rest in ENTRY.findall(report(path, command, architecture)):
                # The hash of an unnamed namespace differs from one compilation to the next.
                name = re.sub(r"_GLOBAL__N__[0-9a-f]{8}_", "_GLOBAL__N__00000000_", name)
                shared = re.search(r"(\d+) bytes smem", rest)
                found.setdefault((path.name, name), {})[architecture] = (
                    int(registers), int(stores) + int(loads), int(shared[1]) if shared else 0)
    mangled = [name for _, name in found]
    names = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout.splitlines()
    return {(file, short(name)): uses for ((file, _), uses), name in zip(found.items(), names) if "cub::" not in name}


def short(name):
    """Returns name<template arguments> of a demangled signature."""
    name = name.replace("lockstep::cuda::", "").replace("hopper::", "").replace("(anonymous namespace)::", "").replace("lockstep::", "")
    name = name.removeprefix("void ")
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:i]
    return name


def span(values):
    values = sorted(values)
    return str(values[0]) if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def table(found, architectures):
    """Returns the table: one row per kernel, for all its instantiations."""
    kernels = {}
    for (file, name), uses in found.items():
        kernels.setdefault((file, name.split("<")[0]), []).append(uses)
    rows = [["file", "kernel", "instances", *(f"sm_{each}" for each in architectures), "shared bytes"]]
    for (file, kernel), all_uses in sorted(kernels.items()):
        row = [file, f"`{kernel}`", str(len(all_uses))]
        for architecture in architectures:
            uses = [each[architecture] for each in all_uses if architecture in each]
            spilled = max((each[1] for each in uses), default=0)
            row.append((span(each[0] for each in uses) if uses else "") + (f", spills {spilled} bytes" if spilled else ""))
        rows.append([*row, span(use[2] for uses in all_uses for use in uses.values())])
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the table to kernels/cuda/README.md")
    parser.add_argument("--every", action="store_true", help="one row for each instantiation")
    parser.add_argument("--variants", action="store_true", help="the table of tests/gpu/variants")
    options = parser.parse_args()
    architectures = ["90a"] if options.variants else ARCHITECTURES
    complaints = []
    found = instances(variant_commands() if options.variants else commands(), architectures, complaints)
    if options.variants:
        complaints += [f"{file}: {name} spills {spilled} bytes" for (file, name), uses in found.items()
                       for _, spilled, _ in uses.values() if spilled]
    if options.every:
        for (file, name), uses in sorted(found.items()):
            print(file, name, *(f"sm_{each}: {uses[each]}" for each in architectures if each in uses), sep="\t")
    elif not options.update or options.variants:
        print(table(found, architectures), end="")
    if complaints:
        sys.exit("registers.py: " + "\n".join(complaints))
    if options.every or options.variants or not options.update:
        return
    text = table(found, architectures)
    nvcc = subprocess.run([next(iter(commands().values()))[0][0], "--version"], capture_output=True, text=True).stdout
    version = re.search(r"release ([0-9.]+)", nvcc)[1]
    page = PAGE.read_text()
    before, after = page.split(FIRST)[0], page.split(LAST)[1]
    PAGE.write_text(f"{before}{FIRST}\nRegisters per thread, by ptxas of CUDA {version}:\n\n{text}{LAST}{after}")


if __name__ == "__main__":
    main()
