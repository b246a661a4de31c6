"""Recipes of the paper, and what surrounds a training with one of them.

- `config`: settings and presets by name; `records`: one per run, and which are of one kind.
- `published`: image datasets with published lists.
- `probes`: linear probes of frozen features, as ``resultant probe`` and `evaluation` fit them.
- `evaluation`: linear probes and frozen decisions of trained networks, one record per run.
- `options`: those of ``resultant train NAME``, by the entry points ``resultant.recipes``.
"""
