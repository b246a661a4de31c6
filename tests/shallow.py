"""ResNet-32 with two of its five blocks per stage, one of each kind: tests of training take a third
of the time. Tests of networks and of the authors' checkpoints have all blocks."""

from resultant_reproduction.cifar import network

network.BLOCKS = 2
