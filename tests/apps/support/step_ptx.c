#include "step_ptx.h"

const char* const kKernelNames[kKernelCount] = {
    "fwd_linear", "fwd_relu", "loss_sum", "bwd_linear", "sgd_update",
};

// clang-format off
#define KERNEL_BEGIN(name)                                                                   \
  ".visible .entry " name "(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3,\n" \
  "                 .param .f32 factor, .param .u32 count, .param .u64 min_ns)\n"            \
  "{\n"                                                                                      \
  "  .reg .pred %p<4>; .reg .f32 %f<10>; .reg .b32 %r<8>; .reg .b64 %rd<20>;\n"              \
  "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"                    \
  "  mad.lo.u32 %r4, %r1, %r2, %r3;\n"                                                       \
  "  ld.param.u32 %r5, [count]; setp.ge.u32 %p1, %r4, %r5; @%p1 bra DONE;\n"                 \
  "  ld.param.f32 %f0, [factor]; mul.wide.u32 %rd0, %r4, 4;\n"                               \
  "  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];\n"                                    \
  "  ld.param.u64 %rd3, [p2]; ld.param.u64 %rd4, [p3];\n"                                    \
  "  cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;\n"                        \
  "  cvta.to.global.u64 %rd3, %rd3; cvta.to.global.u64 %rd4, %rd4;\n"                        \
  "  add.u64 %rd5, %rd1, %rd0; add.u64 %rd6, %rd2, %rd0;\n"                                  \
  "  add.u64 %rd7, %rd3, %rd0; add.u64 %rd8, %rd4, %rd0;\n"                                  \
  "  ld.param.u64 %rd9, [min_ns]; mov.u64 %rd10, %globaltimer;\n"                            \
  "STAY:\n"                                                                                  \
  "  mov.u64 %rd11, %globaltimer; sub.u64 %rd12, %rd11, %rd10;\n"                            \
  "  setp.lt.u64 %p2, %rd12, %rd9; @%p2 bra STAY;\n"
#define KERNEL_END "DONE:\n  ret;\n}\n"

const char kStepPtx[] =
    ".version 5.0\n.target sm_52\n.address_size 64\n"
    KERNEL_BEGIN("fwd_linear")
    "  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];\n"
    "  fma.rn.f32 %f3, %f1, %f2, %f0; st.global.f32 [%rd7], %f3;\n"
    KERNEL_END
    KERNEL_BEGIN("fwd_relu")
    "  ld.global.f32 %f1, [%rd5]; max.f32 %f1, %f1, 0f00000000; st.global.f32 [%rd5], %f1;\n"
    KERNEL_END
    KERNEL_BEGIN("loss_sum")
    "  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];\n"
    "  sub.rn.f32 %f3, %f1, %f2; st.global.f32 [%rd7], %f3;\n"
    "  mul.rn.f32 %f4, %f3, %f3; mul.rn.f32 %f4, %f4, 0f45800000;\n"
    "  cvt.rni.s64.f32 %rd13, %f4; red.global.add.u64 [%rd4], %rd13;\n"
    KERNEL_END
    KERNEL_BEGIN("bwd_linear")
    "  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7];\n"
    "  fma.rn.f32 %f4, %f3, %f2, %f0; setp.gt.f32 %p3, %f4, 0f00000000;\n"
    "  selp.f32 %f1, %f1, 0f00000000, %p3;\n"
    "  ld.global.f32 %f5, [%rd8]; fma.rn.f32 %f5, %f1, %f3, %f5; st.global.f32 [%rd8], %f5;\n"
    "  mul.rn.f32 %f6, %f1, %f2; st.global.f32 [%rd5], %f6;\n"
    KERNEL_END
    KERNEL_BEGIN("sgd_update")
    "  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];\n"
    "  fma.rn.f32 %f1, %f0, %f2, %f1; st.global.f32 [%rd5], %f1;\n"
    KERNEL_END;
// clang-format on
