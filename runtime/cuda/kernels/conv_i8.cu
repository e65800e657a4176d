// Convolution on tensor cores: every tile. CONV(name, type, BM, BN, bytes of a K step, warps M, N, K, stages, bytes a pixel copy, two
// sources, blocks a multiprocessor).
#include "conv_core.cuh"

#if __CUDA_ARCH__ >= 800
CONV(conv_i8_128x128x64_k1_s4, I8, 128, 128, 64, 2, 4, 1, 4, 16, false, 2)
CONV(conv_i8_256x64x64_k1_s3, I8, 256, 64, 64, 4, 2, 1, 3, 16, false, 2)
CONV(conv_i8_128x64x64_k1_s4, I8, 128, 64, 64, 2, 2, 1, 4, 16, false, 3)
CONV(conv_i8_128x32x64_k1_s4, I8, 128, 32, 64, 4, 1, 1, 4, 16, false, 4)
CONV(conv_i8_128x16x64_k1_s4, I8, 128, 16, 64, 4, 1, 1, 4, 16, false, 4)
CONV(conv_i8_128x80x64_k1_s4, I8, 128, 80, 64, 4, 1, 1, 4, 16, false, 2)
CONV(conv_i8_64x64x64_k1_s4, I8, 64, 64, 64, 2, 2, 1, 4, 16, false, 4)
CONV(conv_i8_64x32x64_k1_s4, I8, 64, 32, 64, 2, 2, 1, 4, 16, false, 4)
CONV(conv_i8_64x16x64_k1_s4, I8, 64, 16, 64, 4, 1, 1, 4, 16, false, 4)
CONV(conv_i8_64x64x128_k2_s4, I8, 64, 64, 128, 2, 2, 2, 4, 16, false, 2)
CONV(conv_i8_64x32x128_k2_s4, I8, 64, 32, 128, 2, 1, 2, 4, 16, false, 4)
CONV(conv_i8_32x64x128_k2_s4, I8, 32, 64, 128, 1, 2, 2, 4, 16, false, 4)
CONV(conv_i8_32x32x128_k4_s4, I8, 32, 32, 128, 1, 1, 4, 4, 16, false, 4)
CONV(conv_i8_32x32x256_k4_s3, I8, 32, 32, 256, 1, 1, 4, 3, 16, false, 3)
CONV(conv_i8_16x64x256_k4_s3, I8, 16, 64, 256, 1, 1, 4, 3, 16, false, 2)
CONV(conv_i8_16x32x256_k8_s3, I8, 16, 32, 256, 1, 1, 8, 3, 16, false, 2)
CONV(conv_i8c4_128x16x64_k1_s3, I8, 128, 16, 64, 4, 1, 1, 3, 4, false, 4)
CONV(conv_i8c4_128x32x64_k1_s3, I8, 128, 32, 64, 4, 1, 1, 3, 4, false, 4)
CONV(conv_i8c4_128x64x64_k1_s3, I8, 128, 64, 64, 2, 2, 1, 3, 4, false, 3)
CONV(conv_i8cat_128x64x64_k1_s4, I8, 128, 64, 64, 2, 2, 1, 4, 16, true, 3)
CONV(conv_i8cat_64x64x64_k1_s4, I8, 64, 64, 64, 2, 2, 1, 4, 16, true, 4)
CONV(conv_i8cat_64x32x128_k2_s4, I8, 64, 32, 128, 2, 1, 2, 4, 16, true, 4)
CONV(conv_i8cat_32x32x128_k4_s4, I8, 32, 32, 128, 1, 1, 4, 4, 16, true, 4)
#endif
