"""Write the lowest versions that pyproject.toml allows into a file of constraints, and print what
to install with it: riverui with every extra.

    python .ci/lowest.py lowest.txt
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
needs = {*project["dependencies"], *(need for extra in extras.values() for need in extra)}
lowest = [re.match(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)", need) for need in sorted(needs)]
Path(sys.argv[1]).write_text(
    "".join(f"{each[1]}=={each[2]}\n" for each in lowest if each is not None), encoding="utf-8"
)
sys.stdout.write(f".[{','.join(extras)}]\n")
