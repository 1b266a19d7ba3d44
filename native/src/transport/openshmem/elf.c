/* SPDX-License-Identifier: BSD-3-Clause
 * What the opened library's references to symbols are bound to; see docs/decisions/0004-openshmem-conduit.md.
 *
 * - Its calls of its own routines find ours, in a C program that is linked with ours. RTLD_DEEPBIND would
 *   prevent it, but also gives it libc's `environ` where the program has a copy of its own (an executable at a
 *   fixed address, such as Debian's Python): then setenv() in one half of Open MPI frees what the other uses.
 * - Open MPI offers other PEs, besides its heap, the writable memory below `_end`, where it takes the program's
 *   data to end. Where no program has that symbol it is the library's own, high up, and with it comes whatever
 *   happens to be mapped lower: not the same pieces on all PEs, so that init crashes now and then. */
#define _GNU_SOURCE
#include "transport/openshmem/elf.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "ishmemx.h"

typedef struct image {
    const struct link_map *map;
    const ElfW(Sym) * symbols;
    const char *names;
    uintptr_t relro, relro_end; /* pages that the linker has made read-only */
    uintptr_t program_end;
} image_t;

/* The first object is the program. */
static int look_at(struct dl_phdr_info *info, size_t nbytes, void *data) {
    image_t *image = data;
    bool is_program = !image->program_end;

    (void)nbytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
        if (is_program && segment->p_type == PT_LOAD && end > image->program_end)
            image->program_end = end;
        if (info->dlpi_addr == image->map->l_addr && segment->p_type == PT_GNU_RELRO) {
            image->relro = start;
            image->relro_end = end;
        }
    }
    return 0;
}

static int write_slot(const image_t *image, uintptr_t *slot, uintptr_t value) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)slot & -page;
    bool locked = (uintptr_t)slot >= (image->relro & -page) && (uintptr_t)slot < (image->relro_end & -page);

    if (locked && mprotect((void *)start, page, PROT_READ | PROT_WRITE))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "cannot bind the calls in the OpenSHMEM library to its own routines");
    *slot = value;
    if (locked)
        mprotect((void *)start, page, PROT_READ);
    return ISHMEMX_OK;
}

static bool begins(const char *name, const char *start) {
    return strncmp(name, start, strlen(start)) == 0;
}

/* The names of before 1.2 have no common beginning. */
static bool is_routine(const char *name) {
    return begins(name, "sh") || begins(name, "pshmem") || begins(name, "start_pes") || begins(name, "_my_pe") ||
           begins(name, "_num_pes");
}

/* 0: as the linker bound it. */
static uintptr_t wanted(const image_t *image, const ElfW(Sym) * symbol) {
    const char *name = image->names + symbol->st_name;
    bool is_function = (symbol->st_info & 0xf) == STT_FUNC; /* ELF64_ST_TYPE */

    if (strcmp(name, "_end") == 0)
        return image->program_end;
    if (symbol->st_shndx != SHN_UNDEF && is_function && is_routine(name))
        return image->map->l_addr + symbol->st_value;
    return 0;
}

static int bind_all(const image_t *image, const ElfW(Rela) * relocations, size_t nbytes) {
    int status = ISHMEMX_OK;

    for (size_t i = 0; relocations && !status && i < nbytes / sizeof *relocations; i++) {
        size_t symbol = relocations[i].r_info >> 32; /* ELF64_R_SYM; 0: none */
        uintptr_t value = symbol ? wanted(image, &image->symbols[symbol]) : 0;
        if (value)
            status = write_slot(image, (uintptr_t *)(image->map->l_addr + relocations[i].r_offset),
                                value + (uintptr_t)relocations[i].r_addend);
    }
    return status;
}

int pysh_openshmem_bind(const struct link_map *map) {
    image_t image = {.map = map};
    const ElfW(Rela) *data = NULL, *calls = NULL;
    size_t data_nbytes = 0, calls_nbytes = 0;
    int status;

    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_RELA)
            data = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_RELASZ)
            data_nbytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_JMPREL)
            calls = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_PLTRELSZ)
            calls_nbytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_SYMTAB)
            image.symbols = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_STRTAB)
            image.names = (const void *)entry->d_un.d_ptr;
    }
    if (!image.symbols || !image.names)
        return ISHMEMX_OK;
    dl_iterate_phdr(look_at, &image);
    status = bind_all(&image, data, data_nbytes);
    return status ? status : bind_all(&image, calls, calls_nbytes);
}
