"""A matrix as JUnit XML for test servers: a suite for each workload, a case for each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from .matrix import CRASHED, Result

_VALID = "valid"


def write_junit(results: Sequence[Result], path: Path) -> None:
    """Write the results.

    A run that is invalid or unknown is a failure, one that crashed an error.

    Raises:
        OSError: The file cannot be written.
    """
    root = ElementTree.Element("testsuites", {"name": "verify matrix"} | _counts(results))
    for workload in dict.fromkeys(result.cell.workload for result in results):
        own = [result for result in results if result.cell.workload == workload]
        suite = ElementTree.SubElement(root, "testsuite", {"name": workload} | _counts(own))
        for result in own:
            _add_case(suite, result)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _counts(results: Sequence[Result]) -> dict[str, str]:
    crashed = sum(result.word == CRASHED for result in results)
    good = sum(result.word == _VALID for result in results)
    return {
        "tests": str(len(results)),
        "failures": str(len(results) - good - crashed),
        "errors": str(crashed),
        "time": f"{sum(result.seconds for result in results):.1f}",
    }


def _add_case(suite: ElementTree.Element, result: Result) -> None:
    cell = result.cell
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"matrix.{cell.workload}",
        name=cell.case,
        time=f"{result.seconds:.1f}",
    )
    if result.word != _VALID:
        tag = "error" if result.word == CRASHED else "failure"
        wrong = ElementTree.SubElement(case, tag, type=result.word, message=result.line())
        broken = [f"{rule}: {count} violations" for rule, count in result.broken.items()]
        wrong.text = "\n".join([*broken, *result.reasons, f"run {result.run}"])
