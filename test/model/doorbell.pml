/*
 * The doorbell of a queue: two jobs come one after the other, two waiters sleep. A bell is a wake-up that was given to one sleeper.
 * One of three things may go wrong once: a waiter that took the ticket dies, or one that sleeps, woken or not, goes away (its wait is
 * over, it is cancelled).
 *
 *	- a waiter registers before it looks, so what comes after its look wakes it;
 *	- it rings after a commit that made tickets, and after a rollback that gave some back;
 *	- a waiter that was woken and leaves without a ticket rings for the next.
 *
 * Variants: LOOK_FIRST, COMMIT_ONLY, KEEPS_RING each drop one of them.
 */
#define NOBODY 9

bit ready;			/* the ticket is there */
byte holder = NOBODY;	/* who has taken it in an open transaction */
bit registered[2], bell[2];
byte done, trouble = 1;

inline ring()
{
	if
	:: registered[0] && !bell[0] -> bell[0] = 1
	:: registered[1] && !bell[1] -> bell[1] = 1
	:: else
	fi
}

inline leave(w)
{
	registered[w] = 0; bell[w] = 0
}

inline look(w)
{
	atomic { found = ready && holder == NOBODY; if :: found -> holder = w :: else fi }
}

proctype Waiter(byte w)
{
	bit found;

	do
	:: done == 2 -> break
	:: done < 2 ->
#ifdef LOOK_FIRST
		look(w);
		if :: !found -> registered[w] = 1 :: else fi;
#else
		registered[w] = 1;
		look(w);
#endif
		if
		:: found ->
			leave(w);
			if
			:: atomic { trouble > 0 -> trouble--; holder = NOBODY;
#ifndef COMMIT_ONLY
					ring()
#endif
				};
				goto fin
			:: atomic { holder = NOBODY; ready = 0; done++; if :: done == 2 -> bell[0] = 1; bell[1] = 1 :: else fi }
			fi
		:: else ->
			if
			:: atomic { bell[w] -> leave(w) }
			:: atomic { trouble > 0 -> trouble--;
#ifdef KEEPS_RING
					leave(w)
#else
					if :: bell[w] -> leave(w); ring() :: else -> leave(w) fi
#endif
				};
				goto fin
			:: done == 2 -> skip
			fi
		fi
	od;
fin:
	skip
}

proctype Producer()
{
	byte n;

	do
	:: n < 2 -> atomic { !ready -> ready = 1; ring(); n++ }
	:: else -> break
	od
}

init
{
	atomic { run Waiter(0); run Waiter(1); run Producer() }
}
