/* Lets user-mode-linux run on a processor with more registers than it knows (Intel's AMX).
 *
 * It gives a process its registers back with the 2,696 bytes that were all of them when it was written. The host wants the whole
 * state or none (xstateregs_set in Linux' arch/x86/kernel/fpu/regset.c), so every process would die at its first step. Loaded
 * before it (guest.py), this completes what it sets with what the process has in the other registers, which no guest uses. */

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Where the state says which of its components are not as they are at first (Intel's manual, volume 1, 13.4.2). */
#define IN_USE 512
/* The components that every state has: x87 and SSE. */
#define LEGACY 3UL
#define COMPONENTS 63

static unsigned char whole[64 * 1024];

/* The components that lie in the first `length` bytes, as the processor says (CPUID, leaf 0xd). It is asked once: on a virtual
 * machine each question is a way out to its host. */
static unsigned long components(size_t length) {
  static size_t known;
  static unsigned long found;
  if (known == length)
    return found;
  known = length;
  found = LEGACY;
  for (unsigned i = 2; i < COMPONENTS; i++) {
    unsigned size, offset, ecx, edx;
    __cpuid_count(0xd, i, size, offset, ecx, edx);
    if (size != 0 && offset + size <= length)
      found |= 1UL << i;
  }
  return found;
}

static long set_state(long pid, const struct iovec *known) {
  struct iovec all = {whole, sizeof whole};
  if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all) < 0)
    return -1;
  if (known->iov_len < all.iov_len) {
    unsigned long others, *in_use = (unsigned long *)(whole + IN_USE), mine = components(known->iov_len);
    others = *in_use & ~mine;
    memcpy(whole, known->iov_base, known->iov_len);
    *in_use = (*in_use & mine) | others;
    known = &all;
  }
  return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, known);
}

/* In the place of the C library's. */
long ptrace(enum __ptrace_request request, ...) {
  va_list words;
  va_start(words, request);
  long pid = va_arg(words, pid_t), address = va_arg(words, long);
  void *data = va_arg(words, void *);
  va_end(words);
  if (request == PTRACE_SETREGSET && address == NT_X86_XSTATE)
    return set_state(pid, data);
  if (request < PTRACE_PEEKTEXT || request > PTRACE_PEEKUSER)
    return syscall(SYS_ptrace, request, pid, address, data);
  /* These give what they find; the call itself stores it. */
  long found, status = syscall(SYS_ptrace, request, pid, address, &found);
  if (status < 0)
    return status;
  errno = 0;
  return found;
}
