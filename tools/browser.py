"""A headless Chromium that shows pages of the console, for tests and for pictures in the documentation."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

TIMEOUT_S: Final = 60.0
WIDTH, HEIGHT = 1_100, 700
PROGRAMS: Final = ("chromium", "chromedriver")
FLAGS: Final = (
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
    "no-first-run",
    "disable-dev-shm-usage",
)
WATCH: Final = """
new MutationObserver(() => {
  if (window.drawnAfterMs === undefined && Number(document.body?.dataset.draws) > 0) window.drawnAfterMs = performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
"""A script that records the time at which a page's values were drawn, in ms since the request of the page."""


class Unavailable(Exception):
    """No browser is installed. The message lists the missing programs."""


class NotDrawn(Exception):
    """A page does not show the expected content in time. The message has the actual content."""


class Browser:
    """A running browser. Raises `Unavailable` if Chromium or its driver is not installed."""

    def __init__(self) -> None:
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise Unavailable(f"no {' and no '.join(missing)}; Debian has them as chromium and chromium-driver")
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which(PROGRAMS[0]))
        options.add_argument("--headless=new")
        options.add_argument(f"--window-size={WIDTH},{HEIGHT}")
        # The flags keep the browser from connecting to other servers, and from using /dev/shm, which is small in containers.
        for flag in FLAGS:
            options.add_argument(f"--{flag}")
        if os.geteuid() == 0:
            # Chromium's sandbox does not run as root.
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver: Any = webdriver.Chrome(options=options, service=Service(str(shutil.which(PROGRAMS[1]))))
        # Selenium's default is 30 s, in which axe-core may not end on a loaded machine.
        self.driver.set_script_timeout(5 * TIMEOUT_S)
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

    def enter(self, console_url: str) -> None:
        """Open the console at a URL that contains the token."""
        self.driver.get("about:blank")
        self.driver.get(console_url)
        self.wait("document.body.dataset.page === 'overview' && document.body.dataset.draws > 0")

    def show(self, fragment: str) -> None:
        """Go to a page of the console like a link, and wait until the page's values are drawn."""
        self.script("location.hash = arguments[0]", fragment)
        self.wait("document.body.dataset.page === arguments[0] && document.body.dataset.draws > 0", fragment.partition("?")[0])

    def reload(self) -> tuple[float, float]:
        """Reload the page. Returns the times, in ms, of the first paint and of drawing the values."""
        self.driver.refresh()
        self.wait("window.drawnAfterMs !== undefined")
        paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        deadline_s = time.monotonic() + TIMEOUT_S
        while (painted_ms := self.script(paint)) is None and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return float(painted_ms), float(self.script("return window.drawnAfterMs"))

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def wait(self, condition: str, *arguments: Any, timeout_s: float = TIMEOUT_S) -> float:
        """Wait until a JavaScript expression is true, and return the elapsed seconds. Raises `NotDrawn`."""
        begun_s = time.monotonic()
        while not self.script(f"return Boolean({condition})", *arguments):
            if time.monotonic() - begun_s > timeout_s:
                raise NotDrawn(f"{condition} {arguments}: {self.script('return document.body.innerText')[:2_000]}")
            time.sleep(0.005)
        return time.monotonic() - begun_s

    def wait_for_text(self, text: str, timeout_s: float = TIMEOUT_S) -> float:
        return self.wait("document.body.innerText.includes(arguments[0])", text, timeout_s=timeout_s)

    def click(self, selector: str) -> None:
        """Click an element. If the page replaces the element meanwhile, click the new element."""
        from selenium.common.exceptions import StaleElementReferenceException

        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self.driver.find_element("css selector", selector).click()
            except StaleElementReferenceException:
                if time.monotonic() > deadline_s:
                    raise
            else:
                return

    def write(self, selector: str, text: str) -> None:
        field = self.driver.find_element("css selector", selector)
        field.clear()
        field.send_keys(text)

    def press(self, *keys: str) -> None:
        """Press keys one after the other in the focused element. Names such as ``TAB`` are those of Selenium's `Keys`."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key) if len(key) > 1 else key).perform()

    def look(self, *, width: int = WIDTH, height: int = HEIGHT, is_dark: bool = False) -> None:
        """Set the size of the screen, in pixels, and the system's theme."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        theme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})

    def complaints(self) -> list[str]:
        """Return the browser's log messages since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def picture(self, file: Path) -> None:
        self.driver.save_screenshot(str(file))

    def close(self) -> None:
        self.driver.quit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
