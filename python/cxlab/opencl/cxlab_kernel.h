/*
 * What a kernel in C may use: OpenCL C's work-item functions, barriers and atomic operations, and
 * its names of types. A kernel is a function of C11 with `kernel` before it, compiled for wasm64.
 */
#ifndef CXLAB_KERNEL_H
#define CXLAB_KERNEL_H

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
typedef unsigned char bool;

/* All memory has one address space here. */
#define global
#define local
#define constant const
#define kernel __attribute__((visibility("default")))

#define CXLAB_IMPORT(name) __attribute__((import_module("cxlab"), import_name(name)))

CXLAB_IMPORT("get_work_dim") uint get_work_dim(void);
CXLAB_IMPORT("get_global_id") size_t get_global_id(uint dimension);
CXLAB_IMPORT("get_local_id") size_t get_local_id(uint dimension);
CXLAB_IMPORT("get_group_id") size_t get_group_id(uint dimension);
CXLAB_IMPORT("get_global_size") size_t get_global_size(uint dimension);
CXLAB_IMPORT("get_local_size") size_t get_local_size(uint dimension);
CXLAB_IMPORT("get_num_groups") size_t get_num_groups(uint dimension);
CXLAB_IMPORT("get_global_offset") size_t get_global_offset(uint dimension);

#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
CXLAB_IMPORT("barrier") void barrier(uint flags);

/* Atomic operations on 4 and 8 bytes. They return the old value. */
#define atomic_load(object) __atomic_load_n(object, __ATOMIC_SEQ_CST)
#define atomic_store(object, value) __atomic_store_n(object, value, __ATOMIC_SEQ_CST)
#define atomic_exchange(object, value) __atomic_exchange_n(object, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_add(object, operand) __atomic_fetch_add(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub(object, operand) __atomic_fetch_sub(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_and(object, operand) __atomic_fetch_and(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_or(object, operand) __atomic_fetch_or(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_xor(object, operand) __atomic_fetch_xor(object, operand, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_strong(object, expected, desired) \
	__atomic_compare_exchange_n(object, expected, desired, 0, __ATOMIC_SEQ_CST, \
				    __ATOMIC_SEQ_CST)

#endif
