// 3 x 3 convolutions by patch and first layers. CONV3(name, type, stride, TH, BN, bytes of a chunk, warps M, N, stages, patches, blocks a
// multiprocessor); STEM(name, type, K, BN, TH).
#include "conv3_core.cuh"
#include "conv_stem.cuh"

#if __CUDA_ARCH__ >= 800
CONV3(conv3_i8_128x16_c32_w41_s3_one, I8, 1, 16, 16, 32, 4, 1, 3, 1, 4)
CONV3(conv3_i8_128x32_c32_w41_s3_one, I8, 1, 16, 32, 32, 4, 1, 3, 1, 4)
CONV3(conv3_i8_128x32_c64_w41_s3_one, I8, 1, 16, 32, 64, 4, 1, 3, 1, 4)
CONV3(conv3_i8_128x32_c64_w41_s3, I8, 1, 16, 32, 64, 4, 1, 3, 2, 4)
CONV3(conv3_i8_128x48_c64_w41_s3, I8, 1, 16, 48, 64, 4, 1, 3, 2, 3)
CONV3(conv3_i8_128x64_c64_w22_s3, I8, 1, 16, 64, 64, 2, 2, 3, 2, 3)
CONV3(conv3_i8_128x64_c64_w41_s2, I8, 1, 16, 64, 64, 4, 1, 2, 2, 2)
CONV3(conv3_i8_256x64_c64_w41_s2, I8, 1, 32, 64, 64, 4, 1, 2, 2, 2)
CONV3(conv3_i8_128x80_c32_w41_s3, I8, 1, 16, 80, 32, 4, 1, 3, 2, 2)
CONV3(conv3_i8_64x64_c64_w22_s3, I8, 1, 8, 64, 64, 2, 2, 3, 2, 4)
CONV3(conv3_i8_64x32_c64_w22_s3, I8, 1, 8, 32, 64, 2, 2, 3, 2, 4)
CONV3(conv3_i8_32x32_c64_w22_s3, I8, 1, 4, 32, 64, 2, 2, 3, 2, 4)
CONV3(conv3s2_i8_128x32_c32_w41_s3_one, I8, 2, 16, 32, 32, 4, 1, 3, 1, 3)
CONV3(conv3s2_i8_64x32_c32_w22_s3_one, I8, 2, 8, 32, 32, 2, 2, 3, 1, 4)
CONV3(conv3s2_i8_64x64_c64_w22_s3_one, I8, 2, 8, 64, 64, 2, 2, 3, 1, 3)
CONV3(conv3s2_i8_128x64_c64_w41_s3_one, I8, 2, 16, 64, 64, 4, 1, 3, 1, 2)
CONV3(conv3s2_i8_64x64_c64_w22_s3, I8, 2, 8, 64, 64, 2, 2, 3, 2, 2)
CONV3(conv3s2_i8_64x64_c64_w22_s2, I8, 2, 8, 64, 64, 2, 2, 2, 2, 3)
CONV3(conv3s2_i8_32x32_c64_w22_s3, I8, 2, 4, 32, 64, 2, 2, 3, 2, 3)
STEM(conv_stem3_i8_128x16, I8, 3, 16, 8)
STEM(conv_stem3_i8_256x16, I8, 3, 16, 16)
STEM(conv_stem3_i8_128x32, I8, 3, 32, 8)
STEM(conv_stem3_i8_256x32, I8, 3, 32, 16)
STEM(conv_stem3_i8_128x64, I8, 3, 64, 8)
STEM(conv_stem3_i8_256x64, I8, 3, 64, 16)
STEM(conv_stem6_i8_128x16, I8, 6, 16, 8)
STEM(conv_stem6_i8_128x32, I8, 6, 32, 8)
#endif
