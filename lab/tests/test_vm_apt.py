"""Package selection from apt's output and configuration."""

from __future__ import annotations

import pytest

from tcplab.vm.apt import Package, mirror_of, parse_packages
from tcplab.vm.kernels import select, sources, version_key

APT_CACHE_SHOW = """\
Package: linux-image-6.1.0-9-amd64
Source: linux-signed-amd64
Version: 6.1.27-1
Description: Linux 6.1 for 64-bit PCs (signed)
 Homepage: a continued line, no field
Size: 69000000
SHA256: aa

Package: linux-image-6.1.0-50-amd64
Version: 6.1.176-1
Size: 70305560
SHA256: bb

Package: linux-image-virtual
Version: 1
"""


def package(name: str, version: str) -> Package:
    return Package(name, version, 1, "00")


def split_kernel(release: str, version: str) -> list[Package]:
    parts = ("binary", "modules", "base")
    return [package(f"linux-{part}-{release}", version) for part in parts]


def test_stanzas_become_packages_and_virtual_ones_are_dropped() -> None:
    assert parse_packages(APT_CACHE_SHOW) == [
        Package("linux-image-6.1.0-9-amd64", "6.1.27-1", 69000000, "aa"),
        Package("linux-image-6.1.0-50-amd64", "6.1.176-1", 70305560, "bb"),
    ]


def test_newest_release_is_chosen_numerically_not_alphabetically() -> None:
    release, chosen = select(sources()["6.1"].packages, parse_packages(APT_CACHE_SHOW))
    assert release == "6.1.0-50-amd64"
    assert [p.version for p in chosen] == ["6.1.176-1"]


@pytest.mark.parametrize("flavour", ["amd64-unsigned", "amd64-dbg", "cloud-amd64", "rt-amd64"])
def test_other_flavours_are_never_chosen(flavour: str) -> None:
    offered = [package(f"linux-image-6.1.0-99-{flavour}", "6.1.999-1")]
    offered += [package("linux-image-6.1.0-50-amd64", "6.1.176-1")]
    assert select(sources()["6.1"].packages, offered)[0] == "6.1.0-50-amd64"
    with pytest.raises(LookupError):
        select(sources()["6.1"].packages, offered[:1])


def test_another_series_is_never_chosen() -> None:
    with pytest.raises(LookupError):
        select(sources()["7.2"].packages, split_kernel("7.3.4+deb13-amd64", "7.3.4-1"))
    with pytest.raises(LookupError):
        select(sources()["6.1"].packages, [package("linux-image-6.12.0-1-amd64", "6.12-1")])


def test_incomplete_release_gives_way_to_previous_one() -> None:
    newest = split_kernel("7.2.13+deb14-amd64", "7.2.13-1")[:2]
    before = split_kernel("7.2.12+deb14-amd64", "7.2.12-1")
    release, chosen = select(sources()["7.2"].packages, newest + before)
    assert release == "7.2.12+deb14-amd64"
    assert {p.name for p in chosen} == {p.name for p in before}


def test_the_parts_of_a_kernel_have_one_version() -> None:
    rebuilt = split_kernel("7.2.13+deb14-amd64", "7.2.13-2")
    first = split_kernel("7.2.13+deb14-amd64", "7.2.13-1")
    _, chosen = select(sources()["7.2"].packages, first + rebuilt)
    assert {p.version for p in chosen} == {"7.2.13-2"}


def test_versions_compare_by_their_numbers() -> None:
    releases = ["6.1.0-47-amd64", "6.1.0-9-amd64", "6.12.5+deb13-amd64"]
    assert sorted(releases, key=version_key) == [releases[1], releases[0], releases[2]]


@pytest.mark.parametrize(
    "text",
    [
        "Types: deb\nURIs: http://mirror.example/debian/\nSuites: bookworm\n",
        "# deb http://old.example/debian sid main\ndeb http://mirror.example/debian bookworm main",
        "deb [signed-by=/k.gpg] http://mirror.example/debian bookworm main\n",
        "URIs: http://x.example/debian-security\n\nURIs: http://mirror.example/debian\n",
    ],
)
def test_the_mirror_is_read_from_either_format(text: str) -> None:
    assert mirror_of(text) == "http://mirror.example/debian"


def test_a_third_party_source_is_no_mirror() -> None:
    assert mirror_of("deb https://deb.nodesource.com/node_20.x nodistro main") is None
