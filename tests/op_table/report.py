"""Print, as a markdown table, how many cases of every op agree with LiteRT's CPU kernels.

python -m tests.op_table.report [--random COUNT] [OP ...]
"""

import argparse
import itertools
import random
from collections import Counter
from collections.abc import Sequence

import gles_delegate as gd
from tests.op_table import CASES, OPS, Case
from tests.op_table.case import make_case
from tests.support.oracle import assert_close, run_gles, run_litert


def has_result(case: Case) -> bool:
    """Whether LiteRT takes it, and there is an element in every output."""
    try:
        return all(output.size for output in run_litert(*case.build()))
    except (RuntimeError, ValueError):
        return False


def outcome(case: Case, context: gd.EglContext) -> str:
    """Why the delegate does not agree with LiteRT; an empty string if it does."""
    content, inputs = case.build()
    reference = run_litert(content, inputs)
    try:
        assert_close(run_gles(content, inputs, context), reference, special=case.special)
    except gd.UnsupportedModelError as error:
        return f"not on the GPU: {error.nodes[0][2]}" if error.nodes else str(error)
    except AssertionError:
        return "differs"
    except Exception as error:  # a report continues where a test would stop
        return type(error).__name__
    return ""


def random_cases(op: str, count: int) -> list[Case]:
    """``count`` cases drawn at random among those that LiteRT takes and that have a result."""
    draw, rng = OPS[op].draw, random.Random(op)
    if draw is None:
        return []
    drawn = (make_case(op, OPS[op], draw(rng)) for _ in range(100 * count))
    return list(itertools.islice(filter(has_result, drawn), count))


def report_line(op: str, rows: Sequence[str], drawn: int, context: gd.EglContext) -> str:
    """The table's line for an op, whose rows in the op table are `rows`."""
    outcomes = Counter(
        outcome(case, context)
        for case in itertools.chain(
            (case for case in CASES if case.op in rows), *(random_cases(row, drawn) for row in rows)
        )
    )
    remarks = "; ".join(
        f"{reason.splitlines()[0]} ({count})" for reason, count in outcomes.most_common() if reason
    )
    return f"| {op} | {outcomes['']} / {outcomes.total()} | {remarks} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", metavar="OP", help="default: every op")
    parser.add_argument("--random", type=int, default=0, metavar="COUNT", help="per row, besides")
    arguments = parser.parse_args()
    rows: dict[str, list[str]] = {}
    for row in OPS:
        rows.setdefault(row.split()[0], []).append(row)
    print("| op | cases passed | remarks |\n|---|---|---|")
    context = gd.EglContext()
    for op in arguments.ops or sorted(rows):
        print(report_line(op, rows[op], arguments.random, context), flush=True)
    context.release()


if __name__ == "__main__":
    main()
