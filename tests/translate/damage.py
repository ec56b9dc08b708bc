"""Files of a checkpoint that are wrong: each in a way that the message has to name, then at random, which must end in a message or in
a translation.  Used by translate_test.py."""

import json
import os
import random
import shutil
import struct
import subprocess


def read_tensors(path):
    """Name -> [type, shape, bytes]."""
    with open(path, "rb") as file:
        whole = file.read()
    start = 8 + int.from_bytes(whole[:8], "little")
    tensors = {}
    for name, entry in json.loads(whole[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = [entry["dtype"], entry["shape"], whole[start + begin : start + end]]
    return tensors


def write_tensors(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


class Damage:
    """A copy of a checkpoint, of which one file at a time is wrong."""

    def __init__(self, command, model, folder):
        self.command, self.model, self.folder = command, model, folder
        for name in os.listdir(model):
            shutil.copy(os.path.join(model, name), folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def content(self, name):
        with open(os.path.join(self.model, name), "rb") as file:
            return file.read()

    def run(self, *options, line=b"seventy-one\n"):
        return subprocess.run(self.command + [self.folder, "--to=fr", *options], input=line, capture_output=True, check=False, timeout=600)

    def refused(self, words, *options):
        done = self.run(*options)
        text = done.stderr.decode(errors="replace")
        assert done.returncode in (1, 2) and words in text and not done.stdout, (words, done.returncode, text, done.stdout[:100])
        assert text.count("\n") == 1 or done.returncode == 2, text

    def repair(self, *names):
        for name in names:
            shutil.copy(os.path.join(self.model, name), self.folder)

    def bytes(self, name, content, words):
        with open(self.path(name), "wb") as file:
            file.write(content)
        self.refused(words)
        self.repair(name)

    def settings(self, file, words, **fields):
        """A field that is None is taken out."""
        settings = json.loads(self.content(file))
        settings.update(fields)
        settings = {name: value for name, value in settings.items() if value is not None}
        self.bytes(file, json.dumps(settings).encode(), words)

    def config(self, words, **fields):
        self.settings("config.json", words, **fields)

    def task(self, words, **fields):
        params = json.loads(self.content("config.json"))["task_specific_params"]
        params["translation_en_to_fr"].update(fields)
        self.config(words, task_specific_params=params)

    def tensor(self, name, words, change):
        """change: given a list of type, shape and bytes, returns another, or None for no such tensor."""
        path = self.path("model.safetensors")
        tensors = read_tensors(path)
        tensors[name] = change(tensors[name])
        write_tensors(path, {key: value for key, value in tensors.items() if value})
        self.refused(words)
        self.repair("model.safetensors")

    def at_random(self, name, first, last, values, times, chance):
        """Bytes from first to last: any status but that of a crash, and words if it is not 0."""
        whole = self.content(name)
        for _ in range(times):
            bad = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                bad[chance.randrange(first, last)] = chance.choice(values)
            if chance.random() < 0.1:
                del bad[chance.randrange(first, last) :]
            with open(self.path(name), "wb") as file:
                file.write(bad)
            done = self.run("--max-tokens=8")
            assert done.returncode in (0, 1) and bool(done.stderr) == bool(done.returncode), (name, done.returncode, done.stderr)
        self.repair(name)
