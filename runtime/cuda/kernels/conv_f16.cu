// Convolution on tensor cores: every tile. CONV(name, type, BM, BN, bytes of a K step, warps M, N, K, stages, bytes a pixel copy, two
// sources, blocks a multiprocessor).
#include "conv_core.cuh"

#if __CUDA_ARCH__ >= 800
CONV(conv_f16_128x128x32_k1_s4, F16, 128, 128, 64, 2, 4, 1, 4, 16, false, 2)
CONV(conv_f16_256x64x32_k1_s3, F16, 256, 64, 64, 4, 2, 1, 3, 16, false, 2)
CONV(conv_f16_128x64x32_k1_s4, F16, 128, 64, 64, 2, 2, 1, 4, 16, false, 3)
CONV(conv_f16_128x32x32_k1_s4, F16, 128, 32, 64, 4, 1, 1, 4, 16, false, 4)
CONV(conv_f16_128x16x32_k1_s4, F16, 128, 16, 64, 4, 1, 1, 4, 16, false, 4)
CONV(conv_f16_128x80x32_k1_s4, F16, 128, 80, 64, 4, 1, 1, 4, 16, false, 2)
CONV(conv_f16_64x64x32_k1_s4, F16, 64, 64, 64, 2, 2, 1, 4, 16, false, 4)
CONV(conv_f16_64x32x32_k1_s4, F16, 64, 32, 64, 2, 2, 1, 4, 16, false, 4)
CONV(conv_f16_64x16x32_k1_s4, F16, 64, 16, 64, 4, 1, 1, 4, 16, false, 4)
CONV(conv_f16_64x64x64_k2_s4, F16, 64, 64, 128, 2, 2, 2, 4, 16, false, 2)
CONV(conv_f16_64x32x64_k2_s4, F16, 64, 32, 128, 2, 1, 2, 4, 16, false, 4)
CONV(conv_f16_32x64x64_k2_s4, F16, 32, 64, 128, 1, 2, 2, 4, 16, false, 4)
CONV(conv_f16_32x32x64_k4_s4, F16, 32, 32, 128, 1, 1, 4, 4, 16, false, 4)
CONV(conv_f16_32x32x128_k4_s3, F16, 32, 32, 256, 1, 1, 4, 3, 16, false, 3)
CONV(conv_f16_16x64x128_k4_s3, F16, 16, 64, 256, 1, 1, 4, 3, 16, false, 2)
CONV(conv_f16_16x32x128_k8_s3, F16, 16, 32, 256, 1, 1, 8, 3, 16, false, 2)
CONV(conv_f16c4_128x16x32_k1_s3, F16, 128, 16, 64, 4, 1, 1, 3, 8, false, 4)
CONV(conv_f16c4_128x32x32_k1_s3, F16, 128, 32, 64, 4, 1, 1, 3, 8, false, 4)
CONV(conv_f16c4_128x64x32_k1_s3, F16, 128, 64, 64, 2, 2, 1, 3, 8, false, 3)
CONV(conv_f16cat_128x64x32_k1_s4, F16, 128, 64, 64, 2, 2, 1, 4, 16, true, 3)
CONV(conv_f16cat_64x64x32_k1_s4, F16, 64, 64, 64, 2, 2, 1, 4, 16, true, 4)
CONV(conv_f16cat_64x32x64_k2_s4, F16, 64, 32, 128, 2, 1, 2, 4, 16, true, 4)
CONV(conv_f16cat_32x32x64_k4_s4, F16, 32, 32, 128, 1, 1, 4, 4, 16, true, 4)
#endif
