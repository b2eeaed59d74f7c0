"""Tests that settings come from defaults, a TOML file and the environment, and that errors name wrong settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from shop.settings import Settings, WrongSetting, read


def test_environment_overrides_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('bootstrap = "file:9092"\ncores = 3\nname = "toml"\n[kafka]\n"security.protocol" = "SSL"\n')
    environment = {
        "OTTLA_BOOTSTRAP": "env:9092",
        "SHOP_NAME": "env",
        "SHOP_CONFIG": str(file),
        "SHOP_KAFKA_SASL_MECHANISM": "PLAIN",
    }
    settings = read(None, environment)
    assert (settings.bootstrap, settings.name, settings.cores, settings.partitions) == ("env:9092", "env", 3, 3)
    assert settings.connection == {
        "kafka.bootstrap.servers": "env:9092",
        "kafka.security.protocol": "SSL",
        "kafka.sasl.mechanism": "PLAIN",
    }
    assert read(str(file), {}).bootstrap == "file:9092"
    assert read(None, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("croes = 2", {}, "croes: unknown setting; did you mean cores?"),
        ("cores = 0", {}, "cores is 0; expected a number from 1"),
        ("cores = true", {}, "cores is True; expected a number from 1"),
        ("cores = 1.5", {}, "cores is 1.5; expected a number from 1"),
        ('name = ""', {}, "name is ''; expected a text"),
        ("kafka = 1", {}, "kafka is 1; expected a table of texts"),
        ("cores =", {}, "Invalid value"),
        ("", {"SHOP_CORES": "two"}, "$SHOP_CORES is 'two'; expected a number from 1"),
        ("", {"SHOP_BATCHRECORDS": "1"}, "$SHOP_BATCHRECORDS: unknown setting; did you mean batch_records?"),
        ("", {"SHOP_BOOTSTRAP": "a:1"}, "unknown variable SHOP_BOOTSTRAP: did you mean OTTLA_BOOTSTRAP?"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, environment: dict[str, str], message: str) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(WrongSetting) as wrong:
        read(str(file), environment)
    assert message in str(wrong.value)


def test_missing_file_is_named() -> None:
    with pytest.raises(WrongSetting, match=r"nowhere\.toml"):
        read("nowhere.toml", {})


def test_example_file_has_the_defaults() -> None:
    assert read(str(Path(__file__).parent.parent / "shop.toml"), {}) == Settings()
