"""The architecture, checked: check_layers.py ROOT

Fails if a folder under src/ includes, or links in its CMakeLists.txt, a folder that its line in layers.txt omits; if a
folder without '+torch' includes libtorch; if a public header includes one of ours that is not public; if the program
without libtorch links a folder that has it; or if a file is too long to be read at once.

layers.txt, one line per folder, lowest first:    cluster: base wire
"""
import re
import sys

from sources import CPP, cpp_files, finish, root_argument

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
LINKED = re.compile(r"\btandem_(\w+)\b")
# Functions and targets of cmake/TandemBuild.cmake that look like libraries.
NOT_LIBRARIES = {"compile_quickly", "library", "read_headers", "settings", "test"}
# Programs that must start fast, so they may not reach libtorch.
LIGHT_PROGRAMS = ("apps/tandem",)
MAX_LINES = 600
# Headers for other people's programs, in include/tandem/, and the folder under src/ that they belong to.
PUBLIC, PUBLIC_LAYER = "tandem", "library"


def parse_layers(text):
    allowed, torch = {}, set()
    for line in filter(None, (raw.split("#")[0].strip() for raw in text.splitlines())):
        name, _, rest = line.partition(":")
        words = rest.split()
        if "+torch" in words:
            torch.add(name)
            words.remove("+torch")
        unknown = [w for w in words if w not in allowed]
        if unknown:  # Only earlier lines may be named, so a cycle cannot be written.
            sys.exit(f"layers.txt: {name} names {unknown} before they are declared")
        allowed[name] = {name, *words}
    return allowed, torch


def reaches_torch(name, allowed, torch):
    return bool(allowed.get(name, set()) & torch)


def layer_of(name):
    folder = name.split("/")[0]
    return PUBLIC_LAYER if folder == PUBLIC else folder


def check_includes(path, where, layer, allowed, torch):
    for kind, name in INCLUDE.findall(path.read_text()):
        if TORCH.match(name) and layer not in torch:
            yield f"{where}: {layer}/ may not include libtorch ({name})"
        elif kind == '"' and layer_of(name) not in allowed[layer]:
            yield f"{where}: {layer}/ may not include {name}"


def check_links(path, where, permitted):
    text = re.sub(r"#.*", "", path.read_text())
    own = set(re.findall(r"\b(?:tandem_library\(\s*|add_library\(\s*tandem_)(\w+)", text))
    for name in sorted(set(LINKED.findall(text)) - NOT_LIBRARIES - own):
        # A folder may have helpers of its own: tandem_wire_messages belongs to wire.
        if name.split("_")[0] not in permitted:
            yield f"{where}: may not link tandem_{name}"


def check_source_folders(root, allowed, torch):
    src = root / "src"
    for folder in sorted(p for p in src.iterdir() if p.is_dir()):
        layer = folder.name
        if layer not in allowed:
            yield f"src/{layer}: has no line in layers.txt"
            continue
        for path in sorted(p for p in folder.rglob("*") if p.suffix in CPP):
            yield from check_includes(path, path.relative_to(root), layer, allowed, torch)
        listed = folder / "CMakeLists.txt"
        if listed.exists():
            permitted = allowed[layer] | ({"torch"} if layer in torch else set())
            yield from check_links(listed, listed.relative_to(root), permitted)


def check_public_headers(root):
    for path in sorted((root / "include").rglob("*.h")):
        for kind, name in INCLUDE.findall(path.read_text()):
            if kind == '"' and name.split("/")[0] != PUBLIC:
                yield f"{path.relative_to(root)}: a public header may not include {name}"


def check_light_programs(root, allowed, torch):
    light = {name for name in allowed if not reaches_torch(name, allowed, torch)}
    for program in LIGHT_PROGRAMS:
        for path in sorted((root / program).rglob("*")):
            where = path.relative_to(root)
            if path.name == "CMakeLists.txt":
                yield from check_links(path, where, light)
            elif path.suffix in CPP:
                for kind, name in INCLUDE.findall(path.read_text()):
                    folder = layer_of(name)
                    if TORCH.match(name) or (kind == '"' and folder in allowed and folder not in light):
                        yield f"{where}: the light program may not include {name}"


def check_lengths(root):
    for path in cpp_files(root):
        lines = path.read_text().count("\n")
        if lines > MAX_LINES:
            yield f"{path.relative_to(root)}: {lines} lines; split it, {MAX_LINES} is the most"


def main():
    root = root_argument()
    allowed, torch = parse_layers((root / "layers.txt").read_text())
    problems = [*check_source_folders(root, allowed, torch), *check_public_headers(root),
                *check_light_programs(root, allowed, torch), *check_lengths(root)]
    finish(problems, f"{len(allowed)} layers hold")


if __name__ == "__main__":
    main()
