"""Start the server, run the case on it, stop the server: `.venv/bin/python examples/umbridge/demo.py`."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

server = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.DEVNULL)
try:
    tbq = str(Path(sys.executable).with_name("tbq"))
    subprocess.run([tbq, "run", str(HERE / "case.toml"), *sys.argv[1:]], check=True)
finally:
    server.terminate()
    server.wait()
