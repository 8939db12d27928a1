/// \file
/// Whether this is a build with sanitizers, whose programs are slower and larger than they will ever be used: GCC and clang say
/// it differently.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRACECAST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRACECAST_SANITIZED
#endif
#endif
