"""A real Slurm on this machine: one node, its own munge, everything in one folder.

``with slurm(folder) as environment`` has it running; ``environment`` holds ``SLURM_CONF``, by which commands find it.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "scontrol")
CORES = 4  # that the node says it has, whatever the machine has


def missing():
    """Why there can be none here; empty where it can."""
    if gone := [program for program in NEEDED if _which(program) is None]:
        return f"Slurm is not installed ({', '.join(gone)} missing): apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "Slurm is started by root only"


@contextlib.contextmanager
def slurm(folder):
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    (folder / "slurm.conf").write_text(_configuration(folder))
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    munge = ["--key-file", "munge.key", "--pid-file", "munged.pid", "--log-file", "munged.log", "--seed-file", "seed"]
    socket_file = ["--socket", str(folder / "munge.socket")]
    paths = [str(folder / a) if not a.startswith("--") else a for a in munge]
    commands = [["munged", "--foreground", "--force", *paths, *socket_file], ["slurmctld", "-D"], ["slurmd", "-D"]]
    processes = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("wb") as out:
                program = [_which(command[0]), *command[1:]]
                processes.append(subprocess.Popen(program, env=environment, stdout=out, stderr=out))
            _wait((folder / "munge.socket").exists, "munged")
        _wait(lambda: b"idle" in _asked(["sinfo", "-h", "-o", "%T"], environment), "the node")
        yield environment
    finally:
        _asked(["scancel", "--user=root"], environment)
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _configuration(folder):
    host = socket.gethostname().partition(".")[0]
    control, daemon = _free_port(), _free_port()
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    return f"""ClusterName=tbq
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={daemon}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=2
MinJobAge=300
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={CORES} RealMemory=4000 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def _asked(command, environment):
    return subprocess.run(command, env=environment, capture_output=True, check=False).stdout


def _wait(ready, what):
    deadline = time.monotonic() + 60
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} does not start")
        time.sleep(0.1)


def _which(program):
    return shutil.which(program, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin")


def _free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
