// 3 x 3 convolutions of stride 1 and first layers. CONV3(name, type, TH, BN, bytes of channels, warps M, N, stages, blocks a multiprocessor);
// STEM(name, type, K, BN, TH).
#include "conv3_core.cuh"
#include "conv_stem.cuh"

#if __CUDA_ARCH__ >= 800
CONV3(conv3_i8_128x16_c32, I8, 16, 16, 32, 4, 1, 3, 4)
CONV3(conv3_i8_128x32_c32, I8, 16, 32, 32, 4, 1, 3, 4)
CONV3(conv3_i8_128x32_c64, I8, 16, 32, 64, 4, 1, 3, 4)
CONV3(conv3_i8_128x64_c64_w22, I8, 16, 64, 64, 2, 2, 3, 3)
CONV3(conv3_i8_128x64_c64_w41, I8, 16, 64, 64, 4, 1, 3, 3)
CONV3(conv3_i8_128x80_c64, I8, 16, 80, 64, 4, 1, 3, 2)
CONV3(conv3_i8_256x64_c64, I8, 32, 64, 64, 4, 1, 3, 1)
CONV3(conv3_i8_256x80_c64, I8, 32, 80, 64, 8, 1, 3, 1)
CONV3(conv3_i8_64x64_c64, I8, 8, 64, 64, 2, 2, 3, 4)
CONV3(conv3_i8_64x32_c64, I8, 8, 32, 64, 2, 2, 3, 4)
CONV3(conv3_i8_128x48_c64, I8, 16, 48, 64, 4, 1, 3, 3)
CONV3(conv3_i8_128x128_c64, I8, 16, 128, 64, 2, 2, 3, 2)
CONV3(conv3_i8_32x32_c64, I8, 4, 32, 64, 2, 2, 3, 4)
STEM(conv_stem3_i8_128x16, I8, 3, 16, 8)
STEM(conv_stem3_i8_256x16, I8, 3, 16, 16)
STEM(conv_stem3_i8_128x32, I8, 3, 32, 8)
STEM(conv_stem3_i8_256x32, I8, 3, 32, 16)
STEM(conv_stem3_i8_128x64, I8, 3, 64, 8)
STEM(conv_stem3_i8_256x64, I8, 3, 64, 16)
STEM(conv_stem6_i8_128x16, I8, 6, 16, 8)
STEM(conv_stem6_i8_128x32, I8, 6, 32, 8)
#endif
