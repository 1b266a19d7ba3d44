/* SPDX-License-Identifier: BSD-3-Clause
 * On a GPU the first slots, which the predefined teams and the first others have, take 6 MiB each, so that up to 2 MiB
 * go with flags in them on 2 PEs; the others take 256 KiB. In the simulator all take 128 KiB. */
#include "device/stream_areas.h"

#include "accel/accel.h"
#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"

enum {
    LARGE_SLOTS = 8,
    LARGE_HALF = 3 * 1024 * 1024,
    SMALL_HALF = 128 * 1024,
    SIM_HALF = 64 * 1024,
    UNITS_OF_A_WARP = 2048, /* what a warp stores at a time: see stream_kernels/packets.py */
    FLAG_ROW_UNIT = 64
};

static struct {
    char *flags, *units, *calls;
} areas;

/* Of teams of near members: others have no use for them. Before it is known how large nodes are, as large as can be. */
static int64_t areas_flags_nbytes(int n_pes) {
    int64_t near = pysh.largest_node ? pysh.largest_node : ISHMEMX_MAX_NEAR_PES, most = n_pes < near ? n_pes : near;

    return PYSH_STREAM_MAX_BLOCKS * ((most * 8 + FLAG_ROW_UNIT - 1) / FLAG_ROW_UNIT * FLAG_ROW_UNIT);
}

static int64_t half_nbytes(int slot) {
    if (!pysh.accel || pysh.accel->cpu_visible)
        return SIM_HALF;
    return slot < LARGE_SLOTS ? LARGE_HALF : SMALL_HALF;
}

/* Of the units of the slots before this one. */
static int64_t units_offset(int slot) {
    int64_t large = slot < LARGE_SLOTS ? slot : LARGE_SLOTS;

    return 2 * (large * half_nbytes(0) + (slot - large) * half_nbytes(LARGE_SLOTS));
}

int64_t pysh_stream_areas_nbytes(int n_pes) {
    return pysh.p2p ? ISHMEMX_MAX_TEAMS * areas_flags_nbytes(n_pes) + units_offset(ISHMEMX_MAX_TEAMS) : 0;
}

void pysh_stream_areas_open(char *symmetric, char *calls) {
    areas.flags = symmetric;
    areas.units = symmetric + ISHMEMX_MAX_TEAMS * areas_flags_nbytes(pysh.n_pes);
    areas.calls = calls;
}

int pysh_stream_area_clear(int slot) {
    int64_t flags = areas_flags_nbytes(pysh.n_pes);
    int status = pysh.accel->zero(areas.calls + slot * 8, 8);

    if (!status && pysh.p2p)
        status = pysh.accel->zero(areas.flags + slot * flags, (size_t)flags);
    if (!status && pysh.p2p)
        status = pysh.accel->zero(areas.units + units_offset(slot), (size_t)(2 * half_nbytes(slot)));
    return status;
}

pysh_stream_area_t pysh_stream_area(int slot, int n_members) {
    int64_t share = half_nbytes(slot) / (n_members > 1 ? n_members - 1 : 1);

    return (pysh_stream_area_t){.calls = (int64_t)(intptr_t)(areas.calls + slot * 8),
                                .flags = (int64_t)(intptr_t)(areas.flags + slot * areas_flags_nbytes(pysh.n_pes)),
                                .units = (int64_t)(intptr_t)(areas.units + units_offset(slot)),
                                .slot = share / UNITS_OF_A_WARP * UNITS_OF_A_WARP};
}
