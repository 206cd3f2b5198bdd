/* The kernels of programs.py in C. */
#include "cxlab_kernel.h"

/* y = a x + y, an element for each work-item. */
kernel void axpy(double a, global const double *x, global double *y)
{
	size_t i = get_global_id(0);
	y[i] = a * x[i] + y[i];
}

/* Counts bytes, every get_global_size-th by a work-item. */
kernel void histogram(size_t n, global const uchar *data, global uint *bins)
{
	for (size_t i = get_global_id(0); i < n; i += get_global_size(0))
		atomic_fetch_add(&bins[data[i]], 1);
}

struct node {
	struct node *next;
	ulong value;
};

/* Adds the values of a list. */
kernel void walk(global const struct node *head, global ulong *total)
{
	ulong found = 0;
	for (const struct node *node = head; node; node = node->next)
		found += node->value;
	*total = found;
}

struct numbered_node {
	ulong next;
	ulong value;
};

/* As walk, of a list whose nodes have the number of the next node, from 1. */
kernel void walk_indices(global const struct numbered_node *nodes, ulong head,
			 global ulong *total)
{
	ulong found = 0;
	for (ulong node = head; node; node = nodes[node - 1].next)
		found += nodes[node - 1].value;
	*total = found;
}
