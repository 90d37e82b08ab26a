"""Python messages of the contracts, generated from proto/ when a test starts."""
import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("BATON_SRC") or os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", ".."))
_directory = None
_beside = set()


def make(root, files):
    """Modules of .proto files, named below root, are generated and can be imported from then on."""
    directory = tempfile.mkdtemp(prefix="baton-stubs-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    subprocess.run(
        ["protoc", "-I", root, f"--python_out={directory}", f"--grpc_python_out={directory}",
         f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}", *sorted(files)],
        check=True)
    sys.path.insert(0, directory)
    return directory


def _generate():
    global _directory
    root = os.path.join(SOURCE, "proto")
    files = [os.path.relpath(os.path.join(folder, name), root)
             for folder, _, names in os.walk(root) for name in names if name.endswith(".proto")]
    _directory = make(root, files)


def load(name):
    """The module of a contract: load("baton.v1.member_pb2"), load("baton.v1.kv_pb2_grpc")."""
    if _directory is None:
        _generate()
    return importlib.import_module(name)


def load_beside(file, name):
    """The same for a contract of the package grpc, which would hide gRPC for Python: its first word is left out, as in
    load_beside("health/v1/health.proto", "health.v1.health_pb2")."""
    if file not in _beside:
        _beside.add(file)
        make(os.path.join(SOURCE, "proto", "grpc"), [file])
    return importlib.import_module(name)
