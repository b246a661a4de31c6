"""Encoders and projection heads.

`stacked_resnet` is ResNet-32 with several runs in one network, `timm_encoder` an image encoder of
timm with weights of timm or of a file; both return `Outputs`. `norm` and the blocks of
`stacked_resnet` choose between plain torch and the fused kernels in `kernels`.
"""
