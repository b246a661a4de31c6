"""Low-rank adapters of transformers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cli.conftest import call
from resultant.training.adapters import adapt, attention_layers, merged
from resultant.training.checkpoints import load_network
from resultant.training.encoder import build, timm_encoder
from training.test_tune import write_colours
from training.test_tuner import CONFIG, C, tuner_of


def test_merged_computes_the_same() -> None:
    """By the network without adapters, in its own names."""
    encoder, plain = timm_encoder("test_vit"), timm_encoder("test_vit")
    names = encoder.state_dict().keys()
    before = {name: a.clone() for name, a in encoder.state_dict().items()}
    adapt(encoder, 3, seed=1)
    x = torch.randn(2, 3, 160, 160)
    plain.load_state_dict(before)
    torch.testing.assert_close(encoder.eval()(x), plain.eval()(x))
    with torch.no_grad():
        for name, p in encoder.named_parameters():
            if name.endswith(".B"):
                p.normal_(generator=torch.Generator().manual_seed(2))
    assert not torch.allclose(encoder(x), plain(x), atol=1e-2)
    state = merged(encoder.state_dict())
    assert state.keys() == names
    changed = {name for name in names if not torch.equal(state[name], before[name])}
    # Keys, queries and values, and their projection, in each block.
    assert changed == {n for n in names if ".attn." in n and n.endswith("weight")} and changed
    plain.load_state_dict(state)
    torch.testing.assert_close(plain(x), encoder(x), rtol=1e-4, atol=1e-5)


def test_adapters_and_the_head_alone_are_trained() -> None:
    tuner = tuner_of(replace(CONFIG, lora=2))
    before = {n: a.clone() for n, a in tuner.network.state_dict().items()}
    tuner.train_epoch(0, [])
    after = tuner.network.state_dict()
    moved = {n for n, a in after.items() if not torch.equal(a, before[n])}
    adapters = {n for n in after if n.endswith((".0.A", ".0.B"))}
    assert len(adapters) == 2 * len(attention_layers(tuner.network.encoder)) > 0
    assert {n for n in moved if n.startswith("encoder.")} == adapters
    assert moved - adapters == {n for n in after if not n.startswith("encoder.")}
    # The network of the files has the names of one without adapters.
    assert merged(tuner.best).keys() == build(CONFIG, 0, C).state_dict().keys()


@pytest.mark.parametrize(
    ("name", "rank", "message"),
    [
        ("test_resnet", 2, "expected a transformer for lora, .* got ResNet; --stages"),
        ("test_vit", 65, "expected lora of 64 or less"),
    ],
)
def test_refusals(name: str, rank: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        adapt(timm_encoder(name), rank, 0)
    with pytest.raises(ValueError, match="expected lora or stages, got both"):
        replace(CONFIG, lora=1, stages=1)


@pytest.mark.slow
def test_files_know_no_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, its files, and what predict and timm read from them."""
    monkeypatch.chdir(tmp_path)
    write_colours(Path("data"), {"a": 14, "b": 12})
    command = "tune --data data --model test_vit --no-pretrained --lora 2 --size 160 --epochs 1"
    assert call(f"{command} --batch-size 8 --device cpu --workers 0 --references none") == 0
    best, last = Path("out/tune/training/best"), "out/tune/training/angular-beta0-seed0"
    for file in (f"{best}.safetensors", f"{last}.safetensors"):
        assert load_network(file).network(torch.zeros(1, 3, 160, 160)).encoder.shape == (1, 64)
    assert call("predict out/tune data --device cpu --workers 0") == 0
    assert call(f"export {best}.safetensors --out weights.safetensors") == 0
    timm_encoder("test_vit", weights="weights.safetensors")
