// 3 x 3 convolutions of stride 1 and first layers. CONV3(name, type, TH, BN, bytes of channels, warps M, N, stages, blocks a multiprocessor);
// STEM(name, type, K, BN, TH).
#include "conv3_core.cuh"
#include "conv_stem.cuh"

#if __CUDA_ARCH__ >= 800
CONV3(conv3_f16_128x16_c16, F16, 16, 16, 32, 4, 1, 3, 4)
CONV3(conv3_f16_128x32_c16, F16, 16, 32, 32, 4, 1, 3, 4)
CONV3(conv3_f16_128x32_c32, F16, 16, 32, 64, 4, 1, 3, 4)
CONV3(conv3_f16_128x64_c32_w22, F16, 16, 64, 64, 2, 2, 3, 3)
CONV3(conv3_f16_128x64_c32_w41, F16, 16, 64, 64, 4, 1, 3, 3)
CONV3(conv3_f16_128x80_c32, F16, 16, 80, 64, 4, 1, 3, 2)
CONV3(conv3_f16_256x64_c32, F16, 32, 64, 64, 4, 1, 3, 1)
CONV3(conv3_f16_256x80_c32, F16, 32, 80, 64, 8, 1, 3, 1)
CONV3(conv3_f16_64x64_c32, F16, 8, 64, 64, 2, 2, 3, 4)
CONV3(conv3_f16_64x32_c32, F16, 8, 32, 64, 2, 2, 3, 4)
CONV3(conv3_f16_128x48_c32, F16, 16, 48, 64, 4, 1, 3, 3)
CONV3(conv3_f16_128x128_c32, F16, 16, 128, 64, 2, 2, 3, 2)
CONV3(conv3_f16_32x32_c32, F16, 4, 32, 64, 2, 2, 3, 4)
STEM(conv_stem3_f16_128x16, F16, 3, 16, 8)
STEM(conv_stem3_f16_256x16, F16, 3, 16, 16)
STEM(conv_stem3_f16_128x32, F16, 3, 32, 8)
STEM(conv_stem3_f16_256x32, F16, 3, 32, 16)
STEM(conv_stem3_f16_128x64, F16, 3, 64, 8)
STEM(conv_stem3_f16_256x64, F16, 3, 64, 16)
STEM(conv_stem6_f16_128x16, F16, 6, 16, 8)
STEM(conv_stem6_f16_128x32, F16, 6, 32, 8)
#endif
