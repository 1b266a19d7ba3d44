/* SPDX-License-Identifier: BSD-3-Clause
 * A repair of the opened library's dynamic linking.
 *
 * Open MPI 4.1 offers other PEs, besides its heap, the writable memory below `_end`, where it takes the
 * program's data to end. RTLD_DEEPBIND gives it the `_end` of its own, high up, and with it whatever
 * happens to be mapped lower: not the same pieces on all PEs, so that init crashes now and then. */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conduit_openshmem.h"

/* Of the first object, which is the program. */
static int find_end(struct dl_phdr_info *info, size_t nbytes, void *end) {
    (void)nbytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t last = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        if (segment->p_type == PT_LOAD && last > *(uintptr_t *)end)
            *(uintptr_t *)end = last;
    }
    return 1;
}

/* The slot is in a page that the linker has made read-only. */
static int write_slot(uintptr_t *slot, uintptr_t value) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)slot & -page);

    if (mprotect(start, page, PROT_READ | PROT_WRITE))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "cannot tell the OpenSHMEM library where the program's data ends");
    *slot = value;
    mprotect(start, page, PROT_READ);
    return ISHMEMX_OK;
}

int pysh_openshmem_bind_end(const struct link_map *map) {
    const ElfW(Rela) *relocations = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    size_t nbytes = 0;
    uintptr_t end = 0;
    int status = ISHMEMX_OK;

    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_RELA)
            relocations = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_RELASZ)
            nbytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_SYMTAB)
            symbols = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_STRTAB)
            names = (const void *)entry->d_un.d_ptr;
    }
    if (!relocations || !symbols || !names)
        return ISHMEMX_OK;
    dl_iterate_phdr(find_end, &end);
    for (size_t i = 0; !status && i < nbytes / sizeof *relocations; i++) {
        size_t symbol = relocations[i].r_info >> 32; /* ELF64_R_SYM */
        if (strcmp(names + symbols[symbol].st_name, "_end") == 0)
            status = write_slot((uintptr_t *)(map->l_addr + relocations[i].r_offset), end);
    }
    return status;
}
