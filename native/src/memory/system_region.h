/* SPDX-License-Identifier: BSD-3-Clause
 * Offsets in the system region, the head of each arena, which is never handed out. That of the host arena goes on with
 * the tables of teams, see teams/team.c. */
#pragma once

#define PYSH_SYSTEM_BYTES (64 * 1024)
#define PYSH_SYNC_SLOTS   0    /* u64 a sender: device sync */
#define PYSH_SYNC_EPOCH   2048 /* u64: number of the next device sync, from 1; own PE only */
#define PYSH_FAULT_CLAIM  2112 /* u64: device heap only */
#define PYSH_GRID_WORD    2176 /* u64: device heap, own PE only */
#define PYSH_OWNER_AMOS   8192 /* host heap only: see ops/amo_by_owner.c */
#define PYSH_STATE_BLOCK  4096 /* the state block's copy in device memory, own PE only */
