// 3 x 3 convolutions by patch and first layers. CONV3(name, type, stride, TH, BN, bytes of a chunk, warps M, N, stages, patches, blocks a
// multiprocessor); STEM(name, type, K, BN, TH).
#include "conv3_core.cuh"
#include "conv_stem.cuh"

#if __CUDA_ARCH__ >= 800
CONV3(conv3_f16_128x16_c16_w41_s3_one, F16, 1, 16, 16, 32, 4, 1, 3, 1, 4)
CONV3(conv3_f16_128x32_c16_w41_s3_one, F16, 1, 16, 32, 32, 4, 1, 3, 1, 4)
CONV3(conv3_f16_128x32_c32_w41_s3_one, F16, 1, 16, 32, 64, 4, 1, 3, 1, 4)
CONV3(conv3_f16_128x32_c32_w41_s3, F16, 1, 16, 32, 64, 4, 1, 3, 2, 4)
CONV3(conv3_f16_128x48_c32_w41_s3, F16, 1, 16, 48, 64, 4, 1, 3, 2, 3)
CONV3(conv3_f16_128x64_c32_w22_s3, F16, 1, 16, 64, 64, 2, 2, 3, 2, 3)
CONV3(conv3_f16_128x64_c32_w41_s2, F16, 1, 16, 64, 64, 4, 1, 2, 2, 2)
CONV3(conv3_f16_256x64_c32_w41_s2, F16, 1, 32, 64, 64, 4, 1, 2, 2, 2)
CONV3(conv3_f16_128x80_c16_w41_s3, F16, 1, 16, 80, 32, 4, 1, 3, 2, 2)
CONV3(conv3_f16_64x64_c32_w22_s3, F16, 1, 8, 64, 64, 2, 2, 3, 2, 4)
CONV3(conv3_f16_64x32_c32_w22_s3, F16, 1, 8, 32, 64, 2, 2, 3, 2, 4)
CONV3(conv3_f16_32x32_c32_w22_s3, F16, 1, 4, 32, 64, 2, 2, 3, 2, 4)
CONV3(conv3s2_f16_128x32_c16_w41_s3_one, F16, 2, 16, 32, 32, 4, 1, 3, 1, 3)
CONV3(conv3s2_f16_64x32_c16_w22_s3_one, F16, 2, 8, 32, 32, 2, 2, 3, 1, 4)
CONV3(conv3s2_f16_64x64_c32_w22_s3_one, F16, 2, 8, 64, 64, 2, 2, 3, 1, 3)
CONV3(conv3s2_f16_128x64_c32_w41_s3_one, F16, 2, 16, 64, 64, 4, 1, 3, 1, 2)
CONV3(conv3s2_f16_64x64_c32_w22_s3, F16, 2, 8, 64, 64, 2, 2, 3, 2, 2)
CONV3(conv3s2_f16_64x64_c32_w22_s2, F16, 2, 8, 64, 64, 2, 2, 2, 2, 3)
CONV3(conv3s2_f16_32x32_c32_w22_s3, F16, 2, 4, 32, 64, 2, 2, 3, 2, 3)
STEM(conv_stem3_f16_128x16, F16, 3, 16, 8)
STEM(conv_stem3_f16_256x16, F16, 3, 16, 16)
STEM(conv_stem3_f16_128x32, F16, 3, 32, 8)
STEM(conv_stem3_f16_256x32, F16, 3, 32, 16)
STEM(conv_stem3_f16_128x64, F16, 3, 64, 8)
STEM(conv_stem3_f16_256x64, F16, 3, 64, 16)
STEM(conv_stem6_f16_128x16, F16, 6, 16, 8)
STEM(conv_stem6_f16_128x32, F16, 6, 32, 8)
#endif
