"""The driver's facts, without the agent: nvidia-smi, and its library called from here."""
import ctypes
import subprocess

NVML_PLACES = ("libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1")
NOT_SUPPORTED = 3


def smi(*fields):
    """One list of words per GPU."""
    text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"],
                          check=True, capture_output=True, text=True, timeout=60).stdout
    return [[word.strip() for word in line.split(",")] for line in text.splitlines()]


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Fabric(ctypes.Structure):
    _fields_ = [("cluster", ctypes.c_ubyte * 16), ("status", ctypes.c_int), ("clique", ctypes.c_uint), ("state", ctypes.c_ubyte)]


class Nvml:
    def __init__(self):
        self.lib = next(lib for lib in map(self.load, NVML_PLACES) if lib)
        self.must(self.lib.nvmlInit_v2())

    @staticmethod
    def load(path):
        try:
            return ctypes.CDLL(path)
        except OSError:
            return None

    @staticmethod
    def must(code):
        if code != 0:
            raise AssertionError(f"NVML says {code}")

    def device(self, index):
        d = ctypes.c_void_p()
        self.must(self.lib.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(d)))
        return d

    def codes(self, index):
        """NVML's code for each value that a sample is made of, by its name in spot-nvml's line; None: the library does not have it."""
        d, number = self.device(index), ctypes.c_uint()
        calls = {"mem_used_mib": ("nvmlDeviceGetMemoryInfo", ctypes.byref(Memory())),
                 "util": ("nvmlDeviceGetUtilizationRates", ctypes.byref(Utilization())),
                 "power_mw": ("nvmlDeviceGetPowerUsage", ctypes.byref(number)),
                 "temp_c": ("nvmlDeviceGetTemperature", 0, ctypes.byref(number))}
        return {name: getattr(self.lib, call)(d, *args) if hasattr(self.lib, call) else None
                for name, (call, *args) in calls.items()}

    def fabric(self, index):
        """(code, state, status): state 0 none, 1 not started, 2 in progress, 3 completed."""
        f = Fabric()
        if not hasattr(self.lib, "nvmlDeviceGetGpuFabricInfo"):
            return (None, 0, 0)
        code = self.lib.nvmlDeviceGetGpuFabricInfo(self.device(index), ctypes.byref(f))
        return (code, f.state, f.status)
