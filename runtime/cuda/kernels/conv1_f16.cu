// 1 x 1 convolutions of few input channels. CONV1(name, type, BM, BN, bytes of channels, warps M, N, stages, blocks a multiprocessor).
#include "conv1_core.cuh"

#if __CUDA_ARCH__ >= 800
CONV1(conv1_f16_128x32_c32, F16, 128, 32, 64, 4, 1, 3, 4)
CONV1(conv1_f16_128x32_c48, F16, 128, 32, 96, 4, 1, 3, 3)
CONV1(conv1_f16_128x32_c64, F16, 128, 32, 128, 4, 1, 3, 3)
CONV1(conv1_f16_128x64_c64, F16, 128, 64, 128, 4, 1, 3, 2)
CONV1(conv1_f16_64x64_c64, F16, 64, 64, 128, 2, 2, 3, 4)
CONV1(conv1_f16_128x32_c96, F16, 128, 32, 192, 4, 1, 3, 2)
CONV1(conv1_f16_128x64_c96, F16, 128, 64, 192, 4, 1, 3, 2)
CONV1(conv1_f16_128x80_c96, F16, 128, 80, 192, 4, 1, 3, 1)
CONV1(conv1_f16_64x64_c96, F16, 64, 64, 192, 2, 2, 3, 3)
CONV1(conv1_f16_64x64_c128, F16, 64, 64, 256, 2, 2, 3, 2)
CONV1(conv1_f16_128x128_c128, F16, 128, 128, 256, 4, 2, 2, 1)
CONV1(conv1_f16_64x64_c192, F16, 64, 64, 384, 2, 2, 3, 2)
#endif
