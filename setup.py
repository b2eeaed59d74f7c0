"""What pyproject.toml cannot say: a wheel is built of the sources alone.

setuptools packs whatever lies in build/lib, also the modules that an earlier build has left there and that are gone since.
"""

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildAnew(build_py):
    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree("build/lib", ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": BuildAnew})
