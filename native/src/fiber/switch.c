/* SPDX-License-Identifier: BSD-3-Clause
 * From one stack to another: what the calling convention has a function keep is on the stack that is left. */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "fiber/switch.h"

#define BELOW_SP   128 /* which a leaf function may use */
#define MOST_STACK 4096

void pysh_change_stack(void **from, void *to); /* the text below */

/* Of memory; both are multiples of 8. A stack's has what sanitizers keep between variables. */
__attribute__((no_sanitize("address", "thread"))) static uint64_t digest(uint64_t so_far, const void *memory,
                                                                         size_t nbytes) {
    const uint64_t *words = memory;

    for (size_t i = 0; i < nbytes / 8; i++)
        so_far = (so_far ^ words[i]) * 0x9e3779b97f4a7c15u + (so_far >> 29);
    return so_far;
}

static uint64_t digest_of_stack(uint64_t so_far, uintptr_t sp, const char *low, const char *top) {
    uintptr_t from = sp - BELOW_SP, to = sp + MOST_STACK;

    from = (from > (uintptr_t)low ? from : (uintptr_t)low) & ~(uintptr_t)7;
    to = to < (uintptr_t)top ? to : (uintptr_t)top;
    return to > from ? digest(so_far, (const void *)from, to - from) : so_far;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden pysh_change_stack\n"
        ".globl pysh_change_stack\n"
        ".type pysh_change_stack, @function\n"
        "pysh_change_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size pysh_change_stack, . - pysh_change_stack\n");

void *pysh_fresh_sp(char *top, void (*entry)(void)) {
    uintptr_t *sp = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15);

    *--sp = 0; /* the entry's return address: it has none */
    *--sp = (uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--sp = 0;
    return sp;
}

/* As a call would: below the bytes that a leaf function may use under its stack pointer. */
void pysh_return_to(void *context, void (*function)(void)) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

    registers[REG_RSP] = ((registers[REG_RSP] - 128) & ~(greg_t)15) - 8;
    registers[REG_RIP] = (greg_t)(uintptr_t)function;
}

uintptr_t pysh_interrupted_at(const void *context) {
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

uint64_t pysh_interrupted_with(const void *context, const char *low, const char *top) {
    const mcontext_t *registers = &((const ucontext_t *)context)->uc_mcontext;
    uint64_t all = digest(0, registers->gregs, (REG_RIP + 1) * sizeof *registers->gregs);

    if (registers->fpregs)
        all = digest(all, registers->fpregs->_xmm, sizeof registers->fpregs->_xmm);
    return digest_of_stack(all, (uintptr_t)registers->gregs[REG_RSP], low, top);
}
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden pysh_change_stack\n"
        ".globl pysh_change_stack\n"
        ".type pysh_change_stack, %function\n"
        "pysh_change_stack:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size pysh_change_stack, . - pysh_change_stack\n");

void *pysh_fresh_sp(char *top, void (*entry)(void)) {
    uintptr_t *sp = (uintptr_t *)(((uintptr_t)top & ~(uintptr_t)15) - 160);

    for (int i = 0; i < 20; i++)
        sp[i] = 0;
    sp[11] = (uintptr_t)entry; /* x30 */
    return sp;
}

void pysh_return_to(void *context, void (*function)(void)) {
    mcontext_t *registers = &((ucontext_t *)context)->uc_mcontext;

    registers->sp &= ~(uintptr_t)15;
    registers->pc = (uintptr_t)function;
}

uintptr_t pysh_interrupted_at(const void *context) {
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
}

uint64_t pysh_interrupted_with(const void *context, const char *low, const char *top) {
    const mcontext_t *registers = &((const ucontext_t *)context)->uc_mcontext;
    const struct _aarch64_ctx *extra = (const void *)registers->__reserved;
    uint64_t all = digest(registers->pc, registers->regs, sizeof registers->regs);

    for (; extra->magic; extra = (const void *)((const char *)extra + extra->size))
        if (extra->magic == FPSIMD_MAGIC)
            all = digest(all, ((const struct fpsimd_context *)extra)->vregs, 512);
    return digest_of_stack(all, registers->sp, low, top);
}
#else
#error "fibers are written for x86-64 and aarch64"
#endif

void pysh_switch(void **from, void *to) {
    pysh_change_stack(from, to);
}
