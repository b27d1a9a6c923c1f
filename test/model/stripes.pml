/*
 * Stripes: two transactions, each of which touches the groups of stripes 0 and 1 in an order of its own, and one row (a lease, a row of
 * the line) that both want. Who holds a stripe waits for nothing but a higher one, and rows were locked at the verb.
 *
 * Variants: BY_CALL takes the stripes in the order of the calls; AT_VERB takes the first stripe when its group is touched; ROW_LAST waits
 * for the row under the stripes.
 */
byte stripe[2], row;

inline take(lock, me)
{
	atomic { lock == 0 -> lock = me }
}

proctype Transaction(byte me; byte first)
{
#ifdef AT_VERB
	take(stripe[first], me);
#endif
	/* a transaction may or may not want the row */
#ifdef ROW_LAST
	if :: me == 1 -> take(row, me) :: else fi;
#else
	if :: take(row, me) :: skip fi;
#endif
#if defined(AT_VERB)
	take(stripe[1 - first], me);
#elif defined(BY_CALL)
	take(stripe[first], me);
	take(stripe[1 - first], me);
#else
	take(stripe[0], me);
	take(stripe[1], me);
#endif
#ifdef ROW_LAST
	if :: me == 2 -> take(row, me) :: else fi;
#endif
	d_step { stripe[0] = 0; stripe[1] = 0; if :: row == me -> row = 0 :: else fi }
}

init
{
	atomic { run Transaction(1, 0); run Transaction(2, 1) }
}
