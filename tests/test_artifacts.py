from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orion.artifacts import ID_PATTERN, PREFIX, ArtifactStore, kind_of
from orion.errors import MediaError, UserError
from orion.geometry import Box, crop_transform, rotate_transform


def add_text(store: ArtifactStore, text: str, **fields: object) -> str:
    return store.add(text.encode(), kind="file", media_type="text/plain", **fields).id  # type: ignore[arg-type]


def test_same_bytes_same_id_one_blob(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "a")
    first = store.add(b"pixels", kind="image", media_type="image/png", name="a.png")
    again = store.add(b"pixels", kind="image", media_type="image/png", name="b.png")
    assert again == first
    assert again.name == "a.png"
    assert len(store) == 1
    assert len(list((tmp_path / "a" / "blobs").iterdir())) == 1
    assert first.sha256 == hashlib.sha256(b"pixels").hexdigest()
    other_kind = store.add(b"pixels", kind="file", media_type="application/octet-stream")
    assert other_kind.id != first.id
    assert len(list((tmp_path / "a" / "blobs").iterdir())) == 1
    elsewhere = ArtifactStore(tmp_path / "b")
    elsewhere.add(b"something before", kind="image", media_type="image/png")
    assert elsewhere.add(b"pixels", kind="image", media_type="image/png").id == first.id


@pytest.mark.parametrize("kind", list(PREFIX))
def test_every_kind_has_its_prefix(kind: str, tmp_path: Path) -> None:
    import re

    artifact = ArtifactStore(tmp_path).add(b"x", kind=kind, media_type="a/b")  # type: ignore[arg-type]
    assert re.fullmatch(ID_PATTERN, artifact.id)
    assert kind_of(artifact.id) == kind


def test_clash_is_rehashed(tmp_path: Path) -> None:
    """Ids of six digits clash after a few thousand artifacts; look for a real clash and store both."""
    seen: dict[str, bytes] = {}
    for n in range(100_000):
        data = b"%d" % n
        digits = hashlib.sha256(b"file:" + hashlib.sha256(data).hexdigest().encode()).hexdigest()[:6]
        if digits in seen:
            break
        seen[digits] = data
    else:
        pytest.fail("no clash among 100 000 contents")
    store = ArtifactStore(tmp_path)
    first = store.add(seen[digits], kind="file", media_type="text/plain")
    second = store.add(data, kind="file", media_type="text/plain")
    assert first.id == f"file_{digits}"
    assert second.id != first.id
    reopened = ArtifactStore(tmp_path)
    assert (reopened.read(first.id), reopened.read(second.id)) == (seen[digits], data)
    assert reopened.add(data, kind="file", media_type="text/plain").id == second.id


def test_reopened_store_has_everything(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    page = store.add(b"page", kind="image", media_type="image/png", width=100, height=50, meta={"é": [1, None]})
    crop = store.add(
        b"crop",
        kind="image",
        media_type="image/png",
        parent=page.id,
        transform=crop_transform(10, 5),
        width=20,
        height=10,
    )
    reopened = ArtifactStore(tmp_path)
    assert list(reopened) == [page, crop]
    assert reopened.get(crop.id) == crop
    assert reopened.read(page.id) == b"page"


def test_torn_last_line_is_dropped_and_later_lines_survive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = ArtifactStore(tmp_path)
    kept, lost = add_text(store, "one"), add_text(store, "two")
    index = tmp_path / "artifacts.jsonl"
    index.write_bytes(index.read_bytes()[:-20])
    reopened = ArtifactStore(tmp_path)
    assert "cut" in caplog.text
    assert kept in reopened
    assert lost not in reopened
    assert add_text(reopened, "three") in ArtifactStore(tmp_path)
    assert add_text(reopened, "two") == lost
    assert len(ArtifactStore(tmp_path)) == 3


def test_killed_while_adding_leaves_a_usable_store(tmp_path: Path) -> None:
    script = (
        "import sys; from orion.artifacts import ArtifactStore; store = ArtifactStore(sys.argv[1]); n = 0\n"
        "while True: store.add(b'%d' % n, kind='file', media_type='text/plain'); n += 1; print(n, flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        for _ in range(20):
            confirmed = int(process.stdout.readline())
        process.kill()
        process.wait(10)
    store = ArtifactStore(tmp_path)
    assert len(store) >= confirmed
    assert all(hashlib.sha256(store.read(a.id)).hexdigest() == a.sha256 for a in store)
    add_text(store, "after")
    assert add_text(ArtifactStore(tmp_path), "after") in store


def test_threads_and_processes_share_a_folder(tmp_path: Path) -> None:
    script = (
        "import sys; from orion.artifacts import ArtifactStore; store = ArtifactStore(sys.argv[1])\n"
        "for n in range(30): store.add(b'%s %d' % (sys.argv[2].encode(), n % 20), kind='file', media_type='a/b')"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in ("p", "q")]
    store = ArtifactStore(tmp_path)
    threads = [
        threading.Thread(target=lambda name=name: [add_text(store, f"{name} {n}") for n in range(20)]) for name in "pr"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [process.wait(60) for process in processes] == [0, 0]
    assert len(store) == 60
    assert sorted(store.read(a.id).decode() for a in ArtifactStore(tmp_path)) == sorted(
        f"{name} {n}" for name in "pqr" for n in range(20)
    )


def test_file_is_copied_or_moved(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    mine = tmp_path / "mine.txt"
    mine.write_bytes(b"mine")
    copied = store.add(mine, kind="file", media_type="text/plain")
    mine.write_bytes(b"changed later")
    assert store.read(copied.id) == b"mine"
    with store.scratch() as folder:
        made = folder / "made.txt"
        made.write_bytes(b"made")
        moved = store.add(made, kind="file", media_type="text/plain", move=True)
        assert not made.exists()
        made.write_bytes(b"made")
        assert store.add(made, kind="file", media_type="text/plain", move=True) == moved
        assert not made.exists()
    assert not folder.exists()
    assert store.read(moved.id) == b"made"
    assert moved.size == 4
    assert list((tmp_path / "store" / "scratch").iterdir()) == []


def test_unknown_id_names_the_known_ones(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    with pytest.raises(UserError, match="Known ids: none"):
        store.get("img_000000")
    ids = [add_text(store, str(n)) for n in range(30)]
    with pytest.raises(UserError, match="and 10 older") as caught:
        store.path("img_zzz" + "z" * 500)
    assert ids[-1] in str(caught.value)
    assert len(str(caught.value)) < 600
    with pytest.raises(UserError):
        store.add(b"child", kind="image", media_type="image/png", parent="img_000000")


def test_find_takes_ids_and_single_names(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    invoice = add_text(store, "invoice", name="invoice.txt")
    add_text(store, "a", name="same.txt")
    add_text(store, "b", name="same.txt")
    assert store.find(f" {invoice}\n").id == invoice
    assert store.find("invoice.txt").id == invoice
    with pytest.raises(UserError):
        store.find("same.txt")


def test_to_root_maps_through_the_chain(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    pdf = store.add(b"pdf", kind="document", media_type="application/pdf")
    page = store.add(b"page", kind="image", media_type="image/png", width=200, height=100, parent=pdf.id)
    crop = store.add(
        b"crop",
        kind="image",
        media_type="image/png",
        width=50,
        height=40,
        parent=page.id,
        transform=crop_transform(100, 20),
    )
    turn, (width, height) = rotate_transform(90, 50, 40)
    turned = store.add(
        b"turned", kind="image", media_type="image/png", width=width, height=height, parent=crop.id, transform=turn
    )
    # The upper left quarter of the picture turned counterclockwise is the upper right quarter of the crop.
    root, box = store.to_root(turned.id, Box(x=0, y=0, w=0.5, h=0.5, label="logo"))
    assert root == page.id == box.of
    assert box.label == "logo"
    assert box.to_xyxy_px(200, 100) == pytest.approx((125, 20, 150, 40))
    assert store.to_root(page.id, Box(x=0, y=0, w=1, h=1)) == (page.id, Box(x=0, y=0, w=1, h=1, of=page.id))


def test_boxes_need_pixels(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    page = store.add(b"page", kind="image", media_type="image/png", width=200, height=100)
    crop = store.add(b"crop", kind="image", media_type="image/png", parent=page.id, transform=crop_transform(1, 1))
    with pytest.raises(UserError, match="width and height"):
        store.to_root(crop.id, Box(x=0, y=0, w=1, h=1))


def test_original_path(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    sha256, size = store.keep(b"all frames")
    assert size == 10
    frame = store.add(b"frame", kind="image", media_type="image/png", meta={"original": sha256})
    assert store.original_path(frame.id).read_bytes() == b"all frames"
    plain = store.add(b"plain", kind="image", media_type="image/png")
    assert store.original_path(plain.id) == store.path(plain.id)
    assert len(store) == 2


def test_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A real full disk: /dev/full refuses every write."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this platform")
    store = ArtifactStore(tmp_path)
    (tmp_path / "artifacts.jsonl").unlink()
    (tmp_path / "artifacts.jsonl").symlink_to("/dev/full")
    with pytest.raises(MediaError) as caught:
        add_text(store, "no room")
    assert caught.value.code == "disk_full"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_file_size_limit_counts_as_full(tmp_path: Path) -> None:
    """A quota of the process (RLIMIT_FSIZE) in a child: the blob cannot be written."""
    script = (
        "import resource, signal, sys; from orion.artifacts import ArtifactStore; store = ArtifactStore(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: store.add(b'x' * 10000, kind='file', media_type='a/b')\n"
        "except Exception as error: print(getattr(error, 'code', repr(error)))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "disk_full\n"
    assert list((tmp_path / "scratch").iterdir()) == []
    assert len(ArtifactStore(tmp_path)) == 0


def test_missing_source_stays_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ArtifactStore(tmp_path / "s").add(tmp_path / "nothing", kind="file", media_type="a/b")
    assert caught.value.errno == errno.ENOENT


def test_a_folder_that_cannot_be_made_is_the_users_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError) as caught:
        ArtifactStore(tmp_path / "file" / "store")
    assert caught.value.param == "store"


def test_names_that_are_no_text_are_kept_readable(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    kept = store.add(b"x", kind="file", media_type="a/b", name="bad\udcff.jpg")
    assert kept.name == "bad\ufffd.jpg"
    assert ArtifactStore(tmp_path).get(kept.id) == kept
