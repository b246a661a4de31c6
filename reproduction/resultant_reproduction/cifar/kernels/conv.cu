// 3 x 3 convolutions of many small networks side by side, with the batch norms around them.
//
// An activation is [images, H, W, runs * C] in bf16. A block of four warps owns one run and walks
// over images: it brings a whole image of the run into shared memory, with a border of zeros, and
// applies the norm on the way. Each warp then goes down a strip of the image 16 pixels wide. A row
// of input, at each of three horizontal shifts, is read once and serves three rows of output.
//
// CHANNELS (16 or 32), WIDTH (of the square image, 32 or 16), NORM (whether a norm and a ReLU go
// before the convolution) and BLOCKS (to a multiprocessor) are given on the command line.

typedef unsigned int u32;

#define UNROLL _Pragma("unroll")
#define UNROLL_1 _Pragma("unroll 1")
#define UNROLL_3 _Pragma("unroll 3")

__device__ __forceinline__ u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void load_matrices(u32 (&r)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}

__device__ __forceinline__ void load_transposed(u32 (&r)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}

// d [16, 8] += a [16, 16] b [16, 8]
__device__ __forceinline__ void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 pack(float low, float high) {
    u32 d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

__device__ __forceinline__ float low(u32 v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high(u32 v) { return __uint_as_float(v & 0xffff0000u); }

// Two words at once; the compiler would take them apart.
__device__ __forceinline__ void store(u32* to, u32 first, u32 second) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(first), "r"(second) : "memory");
}

__device__ __forceinline__ uint2 load(const u32* from) {
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
    return v;
}

// The shape of the work.

constexpr int C = CHANNELS, W = WIDTH, PIXELS = W * W, TAPS = 9;
constexpr int THREADS = 128, WARPS = 4;
constexpr int CHUNKS = C / 8;  // of 8 channels, 16 bytes, in a pixel
// The border right of a row of the tile is the one left of the next, and the border under a tile
// the one above the next.
constexpr int ROW_BYTES = (W + 1) * C * 2;
constexpr int NEXT_TILE = (W + 1) * ROW_BYTES;
constexpr int BORDER_BYTES = ROW_BYTES + C * 2;
constexpr int ACROSS = W / 16;  // strips side by side
constexpr int PARTS = C / 16;   // of 16 channels
constexpr int ROWS = W * ACROSS * PARTS / WARPS;                  // in a strip
constexpr int WEIGHT_ROWS = W * ACROSS * PARTS * PARTS / WARPS;   // likewise, for the weights
constexpr int FRAGMENTS = TAPS * PARTS;
constexpr int STEP = THREADS / CHUNKS / W;  // rows that the block loads at once
constexpr int LOADS = W / STEP;

// The chunks of a pixel are permuted so that eight neighbours lie in different banks.
__device__ __forceinline__ int place(int column, int chunk) {
    return column * C * 2 + ((chunk ^ ((column * CHUNKS / 8) & (CHUNKS - 1))) * 16);
}

__device__ __forceinline__ uint4 normalized(uint4 v, const float* scale, const float* shift) {
    u32* w = &v.x;
    UNROLL for (int k = 0; k < 4; ++k)
        w[k] = pack(fmaxf(fmaf(low(w[k]), scale[2 * k], shift[2 * k]), 0.f),
                    fmaxf(fmaf(high(w[k]), scale[2 * k + 1], shift[2 * k + 1]), 0.f));
    return v;
}

// a g + b y + c, in float32
__device__ __forceinline__ uint4 combined(uint4 g, uint4 y, const float* a, const float* b,
                                          const float* c) {
    u32 *v = &g.x, *w = &y.x;
    UNROLL for (int k = 0; k < 4; ++k)
        v[k] = pack(fmaf(a[2 * k], low(v[k]), fmaf(b[2 * k], low(w[k]), c[2 * k])),
                    fmaf(a[2 * k + 1], high(v[k]), fmaf(b[2 * k + 1], high(w[k]), c[2 * k + 1])));
    return g;
}

// Where a thread loads: one column and one chunk of every STEP-th row.
struct Loader {
    int chunk, offset, source, stride;  // the last two in chunks

    __device__ __forceinline__ Loader(int run, int runs) {
        chunk = threadIdx.x % CHUNKS;
        int pixel = threadIdx.x / CHUNKS, row = pixel / W, column = pixel % W;
        offset = (row + 1) * ROW_BYTES + place(column + 1, chunk);
        source = (pixel * runs + run) * CHUNKS + chunk;
        stride = STEP * W * runs * CHUNKS;
    }
};

__device__ __forceinline__ void fetch(char* tile, const uint4* image, const Loader& at,
                                      const float (*line)[C]) {
    constexpr int BATCH = LOADS < 8 ? LOADS : 8;
    image += at.source;
    UNROLL_1 for (int first = 0; first < LOADS; first += BATCH) {
        uint4 v[BATCH];
        UNROLL for (int k = 0; k < BATCH; ++k) v[k] = image[(first + k) * at.stride];
        UNROLL for (int k = 0; k < BATCH; ++k) {
            if (NORM) v[k] = normalized(v[k], line[0] + 8 * at.chunk, line[1] + 8 * at.chunk);
            *(uint4*)(tile + at.offset + (first + k) * STEP * ROW_BYTES) = v[k];
        }
    }
}

__device__ __forceinline__ void fetch_combined(char* tile, const uint4* g, const uint4* y,
                                               const Loader& at, const float (*line)[C]) {
    constexpr int BATCH = 4;
    g += at.source;
    y += at.source;
    const float *a = line[0] + 8 * at.chunk, *b = a + C, *c = b + C;
    UNROLL_1 for (int first = 0; first < LOADS; first += BATCH) {
        uint4 v[BATCH], w[BATCH];
        UNROLL for (int k = 0; k < BATCH; ++k) v[k] = g[(first + k) * at.stride];
        UNROLL for (int k = 0; k < BATCH; ++k) w[k] = y[(first + k) * at.stride];
        UNROLL for (int k = 0; k < BATCH; ++k)
            *(uint4*)(tile + at.offset + (first + k) * STEP * ROW_BYTES) =
                combined(v[k], w[k], a, b, c);
    }
}

// The columns of a product are dealt to output channels such that a thread holds four in a row.
__device__ __forceinline__ int channel(int half, int column) {
    return (column >> 1) * 4 + half * 2 + (column & 1);
}

// The weights [C, C, 3, 3] of a run as fragments: part of the outputs, tap, part of the inputs,
// lane. For the gradient of the input, outputs and inputs change places and the taps turn round.
__device__ __forceinline__ void stage_weights(uint4* fragments, const float* weight, bool turned) {
    for (int k = threadIdx.x; k < PARTS * FRAGMENTS * 32; k += THREADS) {
        int lane = k % 32, in = k / 32 % PARTS;
        int tap = k / 32 / PARTS % TAPS, out = k / 32 / FRAGMENTS;
        u32 v[4];
        UNROLL for (int r = 0; r < 4; ++r) {
            int n = out * 16 + channel(r / 2, lane / 4), m = in * 16 + (lane % 4) * 2 + (r % 2) * 8;
            const float* from = turned ? weight + (m * C + n) * TAPS + (TAPS - 1 - tap)
                                       : weight + (n * C + m) * TAPS + tap;
            v[r] = pack(from[0], from[turned ? C * TAPS : TAPS]);
        }
        fragments[k] = make_uint4(v[0], v[1], v[2], v[3]);
    }
}

__device__ __forceinline__ void clear(char* memory, int bytes) {
    for (int k = threadIdx.x * 16; k < bytes; k += THREADS * 16)
        *(uint4*)(memory + k) = make_uint4(0, 0, 0, 0);
}

// Two sums of each of a thread's four channels, over the block: partial [blocks, 2, runs * C].
__device__ __forceinline__ void write_sums(float (&first)[4], float (&second)[4], float* partial,
                                           int run, int runs) {
    __shared__ float sums[WARPS][2][16];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    UNROLL for (int k = 0; k < 4; ++k) {
        UNROLL for (int far = 4; far < 32; far *= 2) {
            first[k] += __shfl_xor_sync(~0u, first[k], far);
            second[k] += __shfl_xor_sync(~0u, second[k], far);
        }
        if (lane < 4) {
            sums[warp][0][lane * 4 + k] = first[k];
            sums[warp][1][lane * 4 + k] = second[k];
        }
    }
    __syncthreads();
    if (threadIdx.x < 2 * C) {
        int which = threadIdx.x / C, of = threadIdx.x % C;
        float total = 0.f;
        for (int w = of / 16 * ACROSS; w < WARPS; w += ACROSS * PARTS)
            for (int k = 0; k < ACROSS; ++k) total += sums[w + k][which][of % 16];
        partial[((blockIdx.x / runs) * 2 + which) * runs * C + run * C + of] = total;
    }
}

// One warp's strip of a convolution. `write(row, values)` takes each row of outputs: four channels
// of two pixels, at lane / 4 and eight further on. `ahead(row)` goes a row before it.
template <class Ahead, class Write>
__device__ __forceinline__ void convolve_strip(u32 tile, const uint4* fragments, Ahead ahead,
                                               Write write) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int column = warp % ACROSS * 16 + lane % 16;
    fragments += warp / ACROSS % PARTS * FRAGMENTS * 32 + lane;
    tile += warp / (ACROSS * PARTS) * ROWS * ROW_BYTES;
    u32 from[3][PARTS];
    UNROLL for (int kx = 0; kx < 3; ++kx)
        UNROLL for (int in = 0; in < PARTS; ++in)
            from[kx][in] = tile + place(column + kx, lane / 16 + 2 * in);
    uint4 b[TAPS][PARTS];
    UNROLL for (int tap = 0; tap < TAPS; ++tap)
        UNROLL for (int in = 0; in < PARTS; ++in) b[tap][in] = fragments[(tap * PARTS + in) * 32];
    // Sums of the rows that the present one is the last, the middle and the first to add to.
    float d[3][2][4] = {};
    UNROLL_3 for (int row = 0; row < ROWS + 2; ++row) {
        if (row && row <= ROWS) ahead(row - 1);
        UNROLL for (int in = 0; in < PARTS; ++in)
            UNROLL for (int kx = 0; kx < 3; ++kx) {
                u32 a[4];
                load_matrices(a, from[kx][in] + row * ROW_BYTES);
                UNROLL for (int k = 0; k < 3; ++k) {
                    const uint4& w = b[(2 - k) * 3 + kx][in];
                    multiply_add(d[k][0], a, w.x, w.y);
                    multiply_add(d[k][1], a, w.z, w.w);
                }
            }
        if (row >= 2) write(row - 2, d[0]);
        UNROLL for (int half = 0; half < 2; ++half)
            UNROLL for (int k = 0; k < 4; ++k) {
                d[0][half][k] = d[1][half][k];
                d[1][half][k] = d[2][half][k];
                d[2][half][k] = 0.f;
            }
    }
}

// Where a thread's outputs lie in an image, in pairs of channels.
__device__ __forceinline__ int first_output(int run, int runs) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = warp / (ACROSS * PARTS) * ROWS, column = warp % ACROSS * 16 + lane / 4;
    return ((row * W + column) * runs + run) * C / 2 + warp / ACROSS % PARTS * 8 + lane % 4 * 2;
}

// y <- conv(x) or conv(relu(x scale + shift)), and the sums of y and y^2.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
convolve(const uint4* x, const float* weight, const float* saved, u32* y, float* partial,
         int images, int runs) {
    extern __shared__ __align__(128) char memory[];
    __shared__ __align__(16) float coefficients[2][C];
    char* tile = memory;
    uint4* fragments = (uint4*)(memory + NEXT_TILE + BORDER_BYTES);
    int run = blockIdx.x % runs;
    stage_weights(fragments, weight + run * C * C * TAPS, false);
    clear(tile, NEXT_TILE + BORDER_BYTES);
    if (NORM && threadIdx.x < 2 * C)
        coefficients[threadIdx.x / C][threadIdx.x % C] =
            saved[(2 + threadIdx.x / C) * runs * C + run * C + threadIdx.x % C];
    Loader at(run, runs);
    int to = first_output(run, runs);
    float first[4] = {}, second[4] = {};
    for (int image = blockIdx.x / runs; image < images; image += gridDim.x / runs) {
        long long start = (long long)image * PIXELS * runs * C;
        __syncthreads();
        fetch(tile, x + start / 8, at, coefficients);
        __syncthreads();
        u32* out = y + start / 2 + to;
        convolve_strip(address(tile), fragments, [](int) {}, [&](int row, float (&d)[2][4]) {
            UNROLL for (int pixel = 0; pixel < 2; ++pixel) {
                u32 v[2] = {pack(d[0][2 * pixel], d[0][2 * pixel + 1]),
                            pack(d[1][2 * pixel], d[1][2 * pixel + 1])};
                store(out + (row * W + 8 * pixel) * runs * (C / 2), v[0], v[1]);
                UNROLL for (int k = 0; k < 2; ++k) {
                    first[2 * k] += low(v[k]);
                    first[2 * k + 1] += high(v[k]);
                    second[2 * k] = fmaf(low(v[k]), low(v[k]), second[2 * k]);
                    second[2 * k + 1] = fmaf(high(v[k]), high(v[k]), second[2 * k + 1]);
                }
            }
        });
    }
    write_sums(first, second, partial, run, runs);
}

// One warp's share of the weight gradient, dw[tap] [16 outputs, 16 inputs], added up over rows.
__device__ __forceinline__ void correlate_strip(float (&dw)[TAPS][2][4], u32 input, u32 output) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int left = warp % ACROSS * 16, out = warp / ACROSS % PARTS;
    int in = warp / (ACROSS * PARTS) % PARTS;
    int top = warp / (ACROSS * PARTS * PARTS) * WEIGHT_ROWS * ROW_BYTES;
    int column = left + lane % 16;
    u32 from[3];
    UNROLL for (int kx = 0; kx < 3; ++kx)
        from[kx] = input + top + place(column + kx, lane / 16 + 2 * in);
    column = left + lane % 8 + lane / 16 * 8 + 1;
    u32 of = output + top + ROW_BYTES + place(column, lane / 8 % 2 + 2 * out);
    // Output rows above, beside and below the present row of input.
    u32 a[3][4] = {};
    UNROLL_3 for (int row = 0; row < WEIGHT_ROWS + 2; ++row) {
        if (row < WEIGHT_ROWS) {
            load_transposed(a[2], of + row * ROW_BYTES);
        } else {
            UNROLL for (int k = 0; k < 4; ++k) a[2][k] = 0;
        }
        UNROLL for (int kx = 0; kx < 3; ++kx) {
            u32 b[4];
            load_transposed(b, from[kx] + row * ROW_BYTES);
            UNROLL for (int k = 0; k < 3; ++k) {
                multiply_add(dw[(2 - k) * 3 + kx][0], a[k], b[0], b[1]);
                multiply_add(dw[(2 - k) * 3 + kx][1], a[k], b[2], b[3]);
            }
        }
        UNROLL for (int k = 0; k < 4; ++k) {
            a[0][k] = a[1][k];
            a[1][k] = a[2][k];
        }
    }
}

// products [blocks, runs, C, C, 3, 3]: the block's weight gradient, warp after warp.
__device__ __forceinline__ void write_products(const float (&dw)[TAPS][2][4], float* total,
                                               float* products) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int out = warp / ACROSS % PARTS * 16, in = warp / (ACROSS * PARTS) % PARTS * 16;
    __syncthreads();
    clear((char*)total, C * C * TAPS * 4);
    for (int turn = 0; turn < WARPS; ++turn) {
        __syncthreads();
        if (warp == turn)
            UNROLL for (int tap = 0; tap < TAPS; ++tap)
                UNROLL for (int k = 0; k < 8; ++k) {
                    int o = out + lane / 4 + k % 4 / 2 * 8;
                    int i = in + k / 4 * 8 + lane % 4 * 2 + k % 2;
                    total[(o * C + i) * TAPS + tap] += dw[tap][k / 4][k % 4];
                }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < C * C * TAPS; k += THREADS) products[k] = total[k];
}

// Both gradients of y = conv(x), or of y = conv(relu(x scale + shift)), with dy = a g + b y + c.
// Without the norm dx is the gradient of x. With it dx is that of x scale + shift, zero where the
// ReLU is, and its sums go with it: those of dx and of dx (x - mean).
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
differentiate(const uint4* x, const uint4* g, const uint4* y, const float* line,
              const float* weight, const float* saved, u32* dx, float* partial, float* products,
              int images, int runs) {
    extern __shared__ __align__(128) char memory[];
    __shared__ __align__(16) float coefficients[6][C];
    char *input = memory, *output = memory + NEXT_TILE;
    uint4* fragments = (uint4*)(memory + 2 * NEXT_TILE + BORDER_BYTES);
    int lane = threadIdx.x % 32, run = blockIdx.x % runs;
    stage_weights(fragments, weight + run * C * C * TAPS, true);
    clear(memory, 2 * NEXT_TILE + BORDER_BYTES);
    for (int k = threadIdx.x; k < 6 * C; k += THREADS) {
        int which = k / C, of = run * C + k % C;
        // a, b, c; scale, shift, mean
        if (which < 3)
            coefficients[which][k % C] = line[which * runs * C + of];
        else if (NORM)
            coefficients[which][k % C] = saved[(which < 5 ? which - 1 : 0) * runs * C + of];
    }
    Loader at(run, runs);
    int to = first_output(run, runs);
    int mine = threadIdx.x / 32 / ACROSS % PARTS * 16 + lane % 4 * 4;
    float first[4] = {}, second[4] = {}, dw[TAPS][2][4] = {};
    for (int image = blockIdx.x / runs; image < images; image += gridDim.x / runs) {
        long long start = (long long)image * PIXELS * runs * C;
        __syncthreads();
        fetch_combined(output, g + start / 8, y + start / 8, at, coefficients);
        fetch(input, x + start / 8, at, coefficients + 3);
        __syncthreads();
        correlate_strip(dw, address(input), address(output));
        const u32* in = (const u32*)x + start / 2 + to;
        u32* out = dx + start / 2 + to;
        uint2 now[2] = {}, next[2] = {};
        auto ahead = [&](int row) {
            UNROLL for (int pixel = 0; NORM && pixel < 2; ++pixel) {
                now[pixel] = next[pixel];
                next[pixel] = load(in + (row * W + 8 * pixel) * runs * (C / 2));
            }
        };
        convolve_strip(address(output), fragments, ahead, [&](int row, float (&d)[2][4]) {
            if (NORM && row == ROWS - 1) now[0] = next[0], now[1] = next[1];
            // Read again for each row: registers are short.
            float scale[4], shift[4], mean[4];
            *(float4*)scale = *(const float4*)(coefficients[3] + mine);
            *(float4*)shift = *(const float4*)(coefficients[4] + mine);
            *(float4*)mean = *(const float4*)(coefficients[5] + mine);
            UNROLL for (int pixel = 0; pixel < 2; ++pixel) {
                float z[4] = {low(now[pixel].x), high(now[pixel].x), low(now[pixel].y),
                              high(now[pixel].y)};
                float v[4];
                UNROLL for (int k = 0; k < 4; ++k) {
                    v[k] = d[k / 2][2 * pixel + k % 2];
                    if (NORM && !(fmaf(z[k], scale[k], shift[k]) > 0.f)) v[k] = 0.f;
                }
                u32 rounded[2] = {pack(v[0], v[1]), pack(v[2], v[3])};
                store(out + (row * W + 8 * pixel) * runs * (C / 2), rounded[0], rounded[1]);
                UNROLL for (int k = 0; NORM && k < 4; ++k) {
                    float value = k % 2 ? high(rounded[k / 2]) : low(rounded[k / 2]);
                    first[k] += value;
                    second[k] = fmaf(value, z[k] - mean[k], second[k]);
                }
            }
        });
    }
    if (NORM) write_sums(first, second, partial, run, runs);
    write_products(dw, (float*)memory,
                   products + (long long)(blockIdx.x / runs * runs + run) * C * C * TAPS);
}
