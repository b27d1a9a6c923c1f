/* pending.h: growing lists of what a transaction owes at its end; they live in TopMemoryContext and are emptied, not freed */
#ifndef JOBQ_PENDING_H
#define JOBQ_PENDING_H

#include "jobq.h"

#include "utils/memutils.h"

typedef struct PendingList
{
	char *items;
	Size item_size;
	int n;
	int room;
} PendingList;

/* Makes room for one more item. */
static inline void
list_reserve(PendingList *list)
{
	int room = Max(16, list->room * 2);

	if (list->n < list->room)
		return;
	if (list->items == NULL)
		list->items = MemoryContextAlloc(TopMemoryContext, room * list->item_size);
	else
		list->items = repalloc_huge(list->items, room * list->item_size);
	list->room = room;
}

/* A new item at the end, zeroed. */
static inline void *
list_add(PendingList *list)
{
	void *item;

	list_reserve(list);
	item = list->items + list->n * list->item_size;
	memset(item, 0, list->item_size);
	list->n++;
	return item;
}

/* Forgets all items, and the memory of a list that grew large. */
static inline void
list_empty(PendingList *list)
{
	list->n = 0;
	if (list->room > 4096)
	{
		pfree(list->items);
		list->items = NULL;
		list->room = 0;
	}
}

#endif
