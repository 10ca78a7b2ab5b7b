"""Writes yard.map: racks of 6 × 2 cells in lanes of 2, on 50 × 30 cells. The rule is the whole content."""

from pathlib import Path

WIDTH, HEIGHT = 50, 30


def cell(row: int, column: int) -> str:
    """'@' where a rack stands, '.' where agents may drive."""
    inside = 2 <= row < HEIGHT - 2 and 2 <= column < WIDTH - 2
    rack = (row - 2) % 4 < 2 and (column - 2) % 8 < 6
    gate = column in (24, 25)  # one wide lane from south to north
    return "@" if inside and rack and not gate else "."


def yard_map() -> str:
    """The map file, in MovingAI's format."""
    rows = ["".join(cell(row, column) for column in range(WIDTH)) for row in range(HEIGHT)]
    return "\n".join(["type octile", f"height {HEIGHT}", f"width {WIDTH}", "map", *rows]) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "yard.map").write_text(yard_map())
