"""The house rules of companion.py: order, sizes, who writes, who prints, what is promised and tested."""

from __future__ import annotations

import ast
import functools
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = (ROOT / "companion.py").read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)
SECTIONS = (
    "Settings", "Failures", "Plain helpers", "Durable files", "Ledger", "Records",
    "Events and chat log", "Recall", "Tools", "DEV", "Daily check", "Model", "Answer", "Display",
    "Commands and REPL", "Selftest", "Command line",
)
BANNER = re.compile(r"^# --- (\d+)\. (.+?) -+$", re.M)
HEAVY = ("ollama", "rich", "prompt_toolkit", "requests", "crontab", "httpx")


@functools.cache
def section_starts() -> list[tuple[int, str, int]]:
    """(number, name, line) of every banner."""
    return [(int(m[1]), m[2], SOURCE.count("\n", 0, m.start()) + 1) for m in BANNER.finditer(SOURCE)]


def section_of(line: int) -> int:
    """The section that a line stands in, 0 before the first."""
    return max((number for number, _, start in section_starts() if start <= line), default=0)


def functions() -> list[tuple[str, int, int, int]]:
    """(name, first line, length, section) of every function and method."""
    return [(node.name, node.lineno, (node.end_lineno or 0) - node.lineno + 1, section_of(node.lineno))
            for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_the_seventeen_sections_stand_in_order() -> None:
    assert [(number, name) for number, name, _ in section_starts()] == list(enumerate(SECTIONS, 1))


def test_banners_reach_column_99_and_say_little() -> None:
    lines = SOURCE.split("\n")
    for _, name, start in section_starts():
        assert len(lines[start - 1]) == 99, name
        said = 0
        while lines[start + said].startswith("#"):
            said += 1
        assert 1 <= said <= 5, f"{name}: {said} lines under the banner"


def test_function_sizes() -> None:
    lengths = sorted(length for _, _, length, _ in functions())
    longest = max(functions(), key=lambda function: function[2])
    assert statistics.median(lengths) <= 12
    assert lengths[len(lengths) * 9 // 10] <= 40
    assert longest[2] <= 60, longest


def names_of_sections() -> dict[str, int]:
    """Every name of the module's top level and the section that makes it."""
    made: dict[str, int] = {}
    for node in TREE.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            made[node.name] = section_of(node.lineno)
        elif isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        made |= {target.id: section_of(node.lineno) for target in targets if isinstance(target, ast.Name)}
    return made


class Uses(ast.NodeVisitor):
    """Names read anywhere but in annotations."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.found.append((node.id, node.lineno))

    def visit_arg(self, node: ast.arg) -> None:
        return

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.body, *node.decorator_list, *node.args.defaults,
                     *(default for default in node.args.kw_defaults if default is not None)):
            self.visit(part)


def test_a_section_uses_names_from_sections_above_only() -> None:
    made, uses = names_of_sections(), Uses()
    uses.visit(TREE)
    wrong = [f"line {line} (section {section_of(line)}) uses {name} of section {made[name]}"
             for name, line in uses.found if name in made and made[name] > section_of(line) > 0]
    assert not wrong, wrong


def test_no_top_level_name_is_made_twice() -> None:
    made = [node.name for node in TREE.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    made += [name.id for node in TREE.body if isinstance(node, ast.Assign | ast.AnnAssign)
             for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
             for name in ast.walk(target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
    assert len(made) == len(set(made)), sorted({name for name in made if made.count(name) > 1})


WRITERS = re.compile(
    r"\bos\.(?:open|write|replace|rename|unlink|remove|mkdir|makedirs|rmdir|truncate|ftruncate|chmod|fchmod"
    r"|symlink|link|fsync)\(|\.(?:write_text|write_bytes|mkdir|touch|unlink|rename|rmdir|chmod)\("
    r"|\bopen\([^)]*['\"][wax+]|shutil\.(?:rmtree|copy|move)|tempfile\.")


def test_only_section_4_writes_files() -> None:
    wrong = [f"{number}: {line.strip()}" for number, line in enumerate(SOURCE.split("\n"), 1)
             if WRITERS.search(line.split("  # ")[0]) and section_of(number) not in (0, 4)
             and "os.devnull" not in line]
    assert not wrong, wrong


def test_only_sections_14_and_17_print() -> None:
    calls = [node for node in ast.walk(TREE) if isinstance(node, ast.Call)]
    wrong = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("print", "input")
             and section_of(node.lineno) not in (14, 17)]
    wrong += [number for number, line in enumerate(SOURCE.split("\n"), 1)
              if re.search(r"sys\.std(?:out|err)\.write", line) and section_of(number) not in (14, 17)]
    assert not wrong, wrong


def test_blanket_except_stands_at_the_two_boundaries_only() -> None:
    found = []
    for node in ast.walk(TREE):
        if isinstance(node, ast.ExceptHandler):
            names = [ast.unparse(node.type)] if node.type else ["bare"]
            if {"Exception", "BaseException", "bare"} & set(re.findall(r"\w+", names[0])):
                found.append(node.lineno)
    holders = {name for name, first, length, _ in functions() for line in found
               if first <= line < first + length}
    assert len(found) == 2 and holders == {"guarded_step", "main"}, (found, holders)


def test_heavy_packages_are_imported_inside_functions() -> None:
    top = [name for node in TREE.body if isinstance(node, ast.Import | ast.ImportFrom)
           for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])]
    assert not [name for name in top if name.split(".")[0] in HEAVY]


def test_version_imports_nothing_heavy() -> None:
    code = ("import sys, companion\nassert companion.main(['--version']) == 0\n"
            f"print(sorted(name for name in {HEAVY!r} if name in sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"companion {version()}", "[]"]


def version() -> str:
    found = re.search(r'^VERSION = "(.+)"$', SOURCE, re.M)
    assert found
    return found[1]


def test_every_promise_is_in_the_docstring_the_selftest_and_a_test() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py")
                      if path.name != "test_layout.py")
    for number in range(1, 14):
        promise = f"P{number}"
        assert re.search(rf"^{promise} ", ast.get_docstring(TREE) or "", re.M), promise
        assert f'"{promise}": (' in SOURCE, promise
        assert re.search(rf"\b{promise}\b", tests), f"no test names {promise}"


def test_the_two_dependency_lists_are_equal() -> None:
    script = re.search(r"^# /// script\n(.*?)^# ///$", SOURCE, re.M | re.S)
    assert script
    inline = tomllib.loads("\n".join(line[2:] for line in script[1].splitlines()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(inline["dependencies"]) == sorted(project["dependencies"])
    assert inline["requires-python"] == project["requires-python"]


def test_readme_shows_the_real_help() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(usage: companion .*?)```", readme, re.S)
    assert shown, "README has no help block"
    done = subprocess.run([sys.executable, "-m", "companion", "--help"], cwd=ROOT, capture_output=True, text=True,
                          env={"COLUMNS": "80", "PATH": "/usr/bin:/bin"}, check=True)
    assert shown[1].split() == done.stdout.split()


@pytest.mark.parametrize("folder", ["memory", "logs", "reports"])
def test_data_folders_are_kept_empty_in_git(folder: str) -> None:
    done = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    assert done.stdout.split() == [f"{folder}/.gitignore"]
