/*
 * Jobs that wait for others, and who lets them go, at READ COMMITTED: the pre-commit of a few transactions, one step per action on the
 * database.
 *
 *	- Jobs: D1 and D2 end. W waits for D1, for both, or is a batch. V waits for D1, or for W. JOBS_OF tells which share a stripe.
 *	- A row says that one job waits for another: there = it is committed, rdel = who has deleted it and rins = who has inserted it, or
 *	  what replaces it, in a transaction that is still open. marked: the other one did not complete, and is still waited for.
 *	- A ticket of W or V is what has been committed about it, wst; tdel = who has the ticket in hand, tnew = what becomes of it; ver
 *	  tells two tickets of a job apart.
 *	- A snapshot is a copy: sr = rows, st = tickets and their versions, live and dead = jobs.
 *	- A commit makes all of a transaction visible in one step. What follows it are steps of their own: it is counted out and asks for a
 *	  sweep, and its stripes are let go.
 *
 * Who takes part: FIN (T1, T2), ADD (T1, and W and V come to wait for D1), BATCH (W is a batch with the member D1; another may come),
 * POLICY (W and V are cancelled when what they wait for does not complete), DEAD (W comes to wait for a dead D1, which is redriven and
 * completes). HAND: somebody has W's ticket in hand. SWEEP: the scheduler sweeps when it is asked to; without it nobody does. Variants,
 * each of which drops one rule: see variants.txt. README.md tells which function each step is.
 */
#ifndef AB		/* transactions that are rolled back */
#define AB 1
#endif

/* jobs */
#define D1 0
#define D2 1
#define W 2
#define V 3

/* rows */
#define W_D1 0
#define W_D2 1
#define W_OPEN 2
#define V_D1 3
#define V_W 4
#define NR 5
#define WAITER(r) ((r) < V_D1 -> W : V)
#define ON(r) ((r) == W_D1 || (r) == V_D1 -> D1 : ((r) == W_D2 -> D2 : W))
#define OF(w) ((w) == W -> 7 : 24)
/* rows about the end of one of these jobs */
#define ABOUT(jobs) (((jobs) & BIT(D1) -> 9 : 0) | ((jobs) & BIT(D2) -> 2 : 0) | ((jobs) & BIT(W) -> 16 : 0))

/* processes */
#define T1 1		/* ends D1 */
#define T2 2		/* ends D2 */
#define A1 3		/* W comes to wait for D1; batch: D2 becomes a member */
#define A2 4		/* V comes to wait for D1 */
#define RE 5		/* has W's ticket in hand */
#define CL 6		/* closes the batch */
#define SW 7		/* the scheduler's sweep */

/* jst: what is committed about D1 and D2 */
#define NOT_YET 0
#define LIVE 1
#define DONE 2
#define DIED 3

/* wst: about W and V; NOT_YET, or */
#define PENDING 1
#define GONE 2		/* let go */
#define CANCELLED 3

/* watched */
#define UNKNOWN 0
#define NOT 1
#define COMING 2	/* somebody starts to watch */
#define YES 3

#define BIT(x) (1 << (x))
#define HAS(set, x) ((set) & BIT(x))
#ifdef BACKWARDS
#define JOBS_OF(s) BIT(3 - (s))
#define STRIPE(j) (3 - (j))
#elif defined(COLLIDE)
#define JOBS_OF(s) ((s) < 2 -> 5 << (s) : 0)
#define STRIPE(j) ((j) & 1)
#else
#define JOBS_OF(s) BIT(s)
#define STRIPE(j) (j)
#endif

#ifdef HAND
#define NHAND 1
#else
#define NHAND 0
#endif
#ifdef FIN
#define NTX (2 + NHAND)
#elif defined(STAYS)
#define NTX (2 + NHAND)
#elif defined(ADD) || defined(CLOSED)
#define NTX (3 + NHAND)
#else
#define NTX (4 + NHAND)
#endif

byte jst[2], wst[2], tdel[2], tnew[2];
bit ver[2];
byte there, marked, imarked, rdel[NR], rins[NR];
byte shared[4], exclusive[4];
byte watched = YES, ending;
bit blocks;			/* the table of dependencies is not empty */
bit closed, no_member, sweep, swept;
#ifdef MEMBER_CLOSES
bit closes;
#endif
byte need[2];		/* what W and V wait for, whatever the rows say; W: that the batch is closed; V: it cannot be let go here */
byte nfin, ab = AB;
/* Always 0: they give the assertions a name in the checker's output. README.md says what they mean. */
hidden byte EARLY, TWICE, LOST, JOINED, ORPHAN;

hidden byte gi, gk;	/* scratch, within a step */

#define ME(p) BIT((p) - 1)
#ifdef LOOK_NO_STRIPE
#define HOLDS(p, j, ex) (exclusive[STRIPE(j)] == p || (!(ex) && ((j) >= W || (shared[STRIPE(j)] & ME(p)))))
#else
#define HOLDS(p, j, ex) (exclusive[STRIPE(j)] == p || (!(ex) && (shared[STRIPE(j)] & ME(p))))
#endif
#define FREE(p, s) (exclusive[s] == 0 || exclusive[s] == p)
#define SEES_ROW(p, r) ((HAS(there, r) && rdel[r] != p) || rins[r] == p)
#define HELD_BY(p, r) ((HAS(there, r) && rdel[r] == 0) || rins[r] == p)
#define SEES_TICKET(p, x) ((wst[x] == PENDING && tdel[x] != p) || (tdel[x] == p && tnew[x] == PENDING))

#ifdef ADDER_SHARES
#define UNSURE_EXCLUSIVE 0
#define WANTED_EXCLUSIVE (wa & ex)
#else
#define UNSURE_EXCLUSIVE 1
#define WANTED_EXCLUSIVE (un | (wa & ex))
#endif
/* jobs whose stripes are wanted */
#if defined(FINISHER_NO_STRIPE)
#define WANTED (un | wa)
#elif defined(LOOK_NO_STRIPE)
#define WANTED (en | un | (wa & ex))
#elif defined(ADDER_NO_LOOK)
#define WANTED (en | wa)
#else
#define WANTED (en | un | wa)
#endif

#ifdef POLICY
#define KEPT && 0		/* its history is not kept: of what is not known any more it is taken that it is done */
#else
#define KEPT
#endif

/* gk: the rows that hold somebody back and that nobody is deleting, as a dirty snapshot shows them to p */
inline look(p)
{
	gk = 0; gi = 0;
	do
	:: gi < NR -> if :: HELD_BY(p, gi) -> gk = gk | BIT(gi) :: else fi; gi++
	:: else -> break
	od;
	gi = 0
}

/* store_snapshot() */
inline snap(p)
{
	sr = 0; gi = 0;
	do
	:: gi < NR -> if :: SEES_ROW(p, gi) -> sr = sr | BIT(gi) :: else fi; gi++
	:: else -> break
	od;
	gi = 0;
	st = SEES_TICKET(p, 0) | (SEES_TICKET(p, 1) << 1) | (ver[0] << 2) | (ver[1] << 3);
	live = (jst[0] == LIVE) | ((jst[1] == LIVE) << 1) | ((wst[0] == PENDING || wst[0] == GONE) << 2) | 8;
	dead = (jst[0] == DIED) | ((jst[1] == DIED) << 1) | ((wst[0] == CANCELLED) << 2) | ((wst[1] == CANCELLED) << 3)
}

/* Deletes a row without waiting. */
inline delete_row(p, r)
{
	if
	:: rins[r] == p -> rins[r] = 0; imarked = imarked & (255 - BIT(r))
	:: rins[r] != p && HAS(there, r) && rdel[r] == 0 -> rdel[r] = p
	:: else -> asks = 1
	fi
}

/* The same with all of a set that the snapshot shows. */
inline delete_rows(p, rows)
{
	gi = 0;
	do
	:: gi < NR -> if :: HAS(sr & (rows), gi) -> delete_row(p, gi) :: else fi; gi++
	:: else -> break
	od;
	gi = 0
}

/* Puts a row in the place of one: the other job did not complete, and is waited for; or, with POLICY, that is why somebody is cancelled. */
inline mark_row(p, r)
{
	if
	:: rins[r] == p -> imarked = imarked | BIT(r)
	:: rins[r] != p && HAS(marked, r)
	:: rins[r] != p && HAS(there, r) && !HAS(marked, r) && rdel[r] == 0 -> rdel[r] = p; rins[r] = p; imarked = imarked | BIT(r)
	:: else -> asks = 1
	fi
}

/* Deletes a ticket that the snapshot shows, without waiting. */
inline take_ticket(p, x, what)
{
	if
	:: !HAS(st, x)
	:: HAS(st, x) && tdel[x] == p -> tnew[x] = what
	:: HAS(st, x) && tdel[x] == 0 && wst[x] == PENDING && ver[x] == (HAS(st, (x) + 2) -> 1 : 0) -> tdel[x] = p; tnew[x] = what
	:: else ->
#ifndef NEVER_ASKS
		asks = 1
#endif
	fi
}

/* Starts to watch, and waits for the commits of those who did not know. */
inline watch()
{
#if defined(FIRST_WAITS)
	d_step { sees = watched != YES; watched = YES };
	if
	:: sees -> ending == 0
	:: else
	fi;
	sees = 0
#elif defined(ADDER_DOES_NOT_WAIT)
	watched = YES
#else
	d_step { if :: watched != YES -> watched = COMING :: else fi };
	if
	:: watched == YES
	:: atomic { ending == 0 -> watched = YES }
	fi
#endif
}

inline reset()
{
	en = 0; bad = 0; un = 0; known = 0; wa = 0; ex = 0; left = 0; cl = 0; jo = 0; ca = 0; done = 0;
	sr = 0; st = 0; live = 0; dead = 0; r = 0; w = 0; stable = 0; asks = 0; sees = 0; counted = 0
}

inline give_stripes_back(p)
{
	gi = 0;
	do
	:: gi < 4 -> if :: exclusive[gi] == p -> exclusive[gi] = 0 :: else fi; shared[gi] = shared[gi] & (255 - ME(p)); gi++
	:: else -> break
	od;
	gi = 0
}

inline next_stripe()
{
	do
	:: r < 4 && !(JOBS_OF(r) & WANTED) -> r++
	:: else -> break
	od;
	gi = 0
}

inline commit(p)
{
	if :: p <= T2 -> jst[p - 1] = (HAS(bad, p - 1) -> DIED : DONE) :: else fi;
	if :: HAS(cl, W) -> closed = 1 :: else fi;
	if
	:: HAS(jo, W) ->
		jst[D2] = LIVE; need[0] = need[0] | BIT(D2);
		assert(JOINED || !(wst[0] == GONE))
	:: else
	fi;
	gi = 0;
	do
	:: gi < NR ->
		if
		:: rins[gi] == p ->
			there = there | BIT(gi); rins[gi] = 0;
			if :: HAS(imarked, gi) -> marked = marked | BIT(gi) :: else -> marked = marked & (255 - BIT(gi)) fi;
			imarked = imarked & (255 - BIT(gi))
		:: else ->
			if :: rdel[gi] == p -> there = there & (255 - BIT(gi)); marked = marked & (255 - BIT(gi)) :: else fi
		fi;
		if :: rdel[gi] == p -> rdel[gi] = 0 :: else fi;
		gi++
	:: else -> break
	od;
	gi = 0;
	do
	:: gi < 2 ->
		if
		:: tdel[gi] == p ->
			assert(TWICE || !(wst[gi] == GONE || wst[gi] == CANCELLED));
			if
			:: tnew[gi] == GONE ->
				assert(EARLY || !(HAS(need[gi], D1) && jst[D1] != DONE));
				assert(EARLY || !(HAS(need[gi], D2) && jst[D2] != DONE));
				assert(EARLY || !(HAS(need[gi], W) && !closed));
				assert(EARLY || !(HAS(need[gi], V)))
			:: tnew[gi] == PENDING && wst[gi] == PENDING -> ver[gi] = 1 - ver[gi]
			:: else
			fi;
			wst[gi] = tnew[gi]; tdel[gi] = 0; tnew[gi] = 0
		:: else
		fi;
		gi++
	:: else -> break
	od;
	gi = 0
}

inline rollback(p)
{
	gi = 0;
	do
	:: gi < NR ->
		if :: rins[gi] == p -> rins[gi] = 0; imarked = imarked & (255 - BIT(gi)) :: else fi;
		if :: rdel[gi] == p -> rdel[gi] = 0 :: else fi;
		gi++
	:: else -> break
	od;
	gi = 0;
	do
	:: gi < 2 -> if :: tdel[gi] == p -> tdel[gi] = 0; tnew[gi] = 0 :: else fi; gi++
	:: else -> break
	od;
	gi = 0
}

/* What the scheduler notes: jobs that are not held back, and those that wait for one which is not there. */
inline note_lost()
{
	gk = 0; gi = 0;
	do
	:: gi < NR ->
		if
		:: HAS(sr, gi) && HAS(st, WAITER(gi) - W) ->
			gk = gk | BIT(WAITER(gi));
			if
			:: gi != W_OPEN && !HAS(marked, gi) && !HAS(live, ON(gi)) -> un = un | BIT(ON(gi)); wa = wa | BIT(WAITER(gi))
#ifdef POLICY
			:: HAS(marked, gi) -> ca = ca | BIT(WAITER(gi)); wa = wa | BIT(WAITER(gi)); ex = ex | BIT(WAITER(gi))
#endif
			:: else
			fi
		:: else
		fi;
		gi++
	:: else -> break
	od;
	gi = 0;
	do
	:: gi < 2 -> if :: HAS(st, gi) && !HAS(gk, W + gi) -> wa = wa | BIT(W + gi) :: else fi; gi++
	:: else -> break
	od;
	gi = 0; gk = 0
}

/* Jobs that may have ended before anybody could know that they are waited for. */
inline see_unsure(p)
{
	gi = 0;
	do
	:: gi < 3 ->
		if
		:: !HAS(un, gi)
		:: HAS(un, gi) && !HOLDS(p, gi, UNSURE_EXCLUSIVE) -> stable = 0
#ifdef KNOWN_FOR_EVER
		:: HAS(un, gi) && HOLDS(p, gi, UNSURE_EXCLUSIVE) && HAS(known, gi)
		:: HAS(un, gi) && HOLDS(p, gi, UNSURE_EXCLUSIVE) && !HAS(known, gi) ->
#else
		:: HAS(un, gi) && HOLDS(p, gi, UNSURE_EXCLUSIVE) ->
#endif
			if
			:: HAS(live, gi) -> en = en & (255 - BIT(gi)); known = known & (255 - BIT(gi))
			:: else ->
				if :: HAS(dead, gi) KEPT -> bad = bad | BIT(gi) :: else -> bad = bad & (255 - BIT(gi)) fi;
				if :: !HAS(known, gi) -> stable = 0 :: else fi;
				en = en | BIT(gi); known = known | BIT(gi)
			fi
		fi;
		gi++
	:: else -> break
	od;
	gi = 0
}

/* What becomes of a row on a job that has ended. */
inline settle_row(p, r)
{
	gk = WAITER(r);
	if
	:: !HAS(bad, ON(r)) -> delete_row(p, r)
#ifndef KEEPS_ROW_OF_NOBODY
	:: HAS(bad, ON(r)) && !HAS(st, gk - W) -> delete_row(p, r)
#endif
	:: else ->
#ifndef NOT_MARKED
		mark_row(p, r);
#endif
#ifdef POLICY
		ca = ca | BIT(gk); ex = ex | BIT(gk);
		if :: !HOLDS(p, gk, 1) -> stable = 0 :: else fi
#endif
	fi;
	gk = 0
}

inline next_waiter()
{
	w = (w == W && HAS(wa, V) -> V : V + 1)
}

inline next_to_go()
{
	if :: w == W && !HAS(wa & ex & (255 - left), W) -> w++ :: else fi;
	if :: w == V && !HAS(wa & ex & (255 - left), V) -> w++ :: else fi
}

#ifdef SWEEPS_ONCE
#define SWEEPS_AGAIN && p != SW
#else
#define SWEEPS_AGAIN
#endif
#ifdef LOOKS_NOT_REPEATED
#define LOOKS_AGAIN && !HAS(done, w)
#else
#define LOOKS_AGAIN
#endif
#define THEIRS(r) (HAS(sr, r) && (r) != W_OPEN && HAS(en, ON(r)))

proctype Tx(byte p)
{
	/* what it has noted, as sets of jobs */
	byte en, bad;		/* have ended; did not complete */
	byte un, known;		/* may have ended before anybody could know; have */
	byte wa, ex;		/* wait; their stripe is wanted exclusively */
	byte left, cl, jo, ca;	/* wait no more; batch to be closed; that got a member; to be cancelled */
	byte done;			/* LOOK_FIRST, LOOKS_NOT_REPEATED: found to be held back */
	byte sr, st, live, dead;
	byte r, w;
	bit stable, asks, sees, counted;

again:
	if
	/* ---------------- verbs ---------------- */
	:: p == T1 || p == T2 ->
		if
		:: atomic { jst[p - 1] == LIVE -> en = BIT(p - 1);
#ifdef POLICY
				if :: bad = en :: skip fi
#endif
#ifdef MEMBER_CLOSES
				; if :: p == T1 && !closes -> closes = 1; cl = BIT(W); wa = cl; ex = cl :: else fi
#endif
			}
#ifdef DROP_AT_VERB
			; d_step { if :: !(there & ABOUT(en)) -> en = 0 :: else fi }
#endif
#ifdef BATCH
		:: atomic { p == T2 && jst[D2] == NOT_YET && no_member -> goto over }
#endif
		fi
#ifdef ADD
	:: p == A1 || p == A2 ->
		if
		:: atomic { jst[D1] == DONE -> goto over }	/* nothing to wait for */
		:: jst[D1] != DONE
		fi;
		watch();
		d_step {
			w = (p == A1 -> W : V);
			rins[(p == A1 -> W_D1 : V_D1)] = p; blocks = 1;
			tdel[w - W] = p; tnew[w - W] = PENDING;
			un = BIT(D1); wa = BIT(w); w = 0
		}
#endif
#ifdef BATCH
	:: p == A1 ->
		if
		:: atomic { !SEES_TICKET(p, 0) -> goto over }
		:: d_step { SEES_TICKET(p, 0) -> rins[W_D2] = p; wa = BIT(W); jo = wa }
		fi
	:: p == CL ->
		if
		:: atomic { !HAS(there, W_OPEN) -> goto over }
		:: d_step { HAS(there, W_OPEN) -> wa = BIT(W); cl = wa;
#ifndef CLOSER_SHARES
				ex = wa
#endif
			}
		fi
#endif
#ifdef HAND
	:: p == RE ->
		if
		:: atomic { wst[0] == GONE || wst[0] == CANCELLED -> goto over }
		:: atomic { wst[0] == PENDING && tdel[0] == 0 -> tdel[0] = p;
				if
				:: tnew[0] = PENDING;
#ifndef NO_CHECK
					wa = BIT(W)
#endif
				:: tnew[0] = CANCELLED; en = BIT(W); bad = en; wa = en; left = en;
#ifndef LEAVER_SHARES
					ex = en
#endif
				fi
			}
		fi
#endif
#ifdef SWEEP
	:: p == SW ->
		if
		:: atomic { nfin == NTX && !sweep -> swept = 1; goto quit }
		:: atomic { sweep -> sweep = 0 }
		fi;
		d_step { snap(p); note_lost() };
		if
		:: atomic { wa == 0 -> reset(); goto again }
		:: else
		fi
#endif
	fi;

	/* ---------------- pre-commit ---------------- */
#ifdef FLAG
	if
	:: en != 0 && wa == 0 && un == 0 ->
#ifdef FLAG_FIRST
		d_step { w = watched };
		d_step { ending++; counted = 1 };
#else
		d_step { ending++; counted = 1 };
		d_step { w = watched };
#endif
		if
		:: w == UNKNOWN ->
			d_step { sees = blocks };
#ifdef NO_CAS
			d_step { watched = (sees -> YES : NOT) }
#else
			d_step { if :: watched == UNKNOWN -> watched = (sees -> YES : NOT) :: else -> sees = watched != NOT fi }
#endif
		:: else -> sees = w != NOT
		fi;
		d_step { w = 0;
#ifdef NOT_COUNTED
			ending--; counted = 0
#else
			if :: sees -> ending--; counted = 0 :: else fi
#endif
		};
		if
		:: sees -> sees = 0
		:: else -> goto finish
		fi
	:: else
	fi;
#endif

	/* ---------------- stripes ---------------- */
more:
	if
	:: d_step {
#ifndef KEEPS_STRIPES
		give_stripes_back(p);
#endif
		sr = 0; st = 0; live = 0; dead = 0; stable = 0; r = 0; next_stripe()
	}
	fi;
	do
	:: atomic { r == 4 -> r = 0; break }
	:: d_step { r < 4 && FREE(p, r) && (JOBS_OF(r) & WANTED & WANTED_EXCLUSIVE) && (shared[r] & (255 - ME(p))) == 0 ->
			exclusive[r] = p; r++; next_stripe() }
	:: d_step { r < 4 && FREE(p, r) && !(JOBS_OF(r) & WANTED & WANTED_EXCLUSIVE) ->
			shared[r] = shared[r] | ME(p); r++; next_stripe() }
	:: atomic { r < 4 && ab > 0 -> ab--; goto undo }	/* it has waited for too long */
	od;

	/* ---------------- a round ---------------- */
	if
	:: d_step {
		stable = 1;
		snap(p);
#ifdef LOOK_FIRST
		look(p); w = gk & (255 - ABOUT(en)); gk = 0;
		done = (w & 7 -> BIT(W) : 0) | (w & 24 -> BIT(V) : 0); w = 0;
#endif
#ifndef ADDER_NO_LOOK
		see_unsure(p);
#endif
#ifndef FINISHER_NO_STRIPE
		gi = 0;
		do
		:: gi < 3 -> if :: HAS(en, gi) && !HOLDS(p, gi, 0) -> stable = 0 :: else fi; gi++
		:: else -> break
		od;
		gi = 0;
#endif
		r = 0
	}
	fi;
	/* see_ended */
	do
	:: atomic {
			d_step {
				do
				:: r < NR && !THEIRS(r) -> r++
				:: else -> break
				od;
				if
				:: r == NR
				:: else ->
					wa = wa | BIT(WAITER(r));
					if
					:: HAS(left, WAITER(r))
#ifdef DELETES_AT_ONCE
					:: !HAS(left, WAITER(r)) ->
						if :: !HOLDS(p, WAITER(r), 0) -> stable = 0 :: else fi;
						settle_row(p, r)
#else
					:: !HAS(left, WAITER(r)) && !HOLDS(p, WAITER(r), 0) -> stable = 0
					:: !HAS(left, WAITER(r)) && HOLDS(p, WAITER(r), 0) -> settle_row(p, r)
#endif
					fi;
					r++
				fi
			};
			if :: r == NR -> r = 0; w = (HAS(wa, W) -> W : (HAS(wa, V) -> V : V + 1)); break :: else fi
		}
	od;
	/* see_waiter */
	do
	:: atomic { w > V -> w = 0; break }
	:: atomic { w <= V && !HOLDS(p, w, HAS(ex, w)) -> stable = 0;
			/* a guess that saves a round, made or not */
			if
			:: skip
			:: !HAS(ex, w) -> d_step { look(p); if :: !(gk & OF(w) & (255 - ABOUT(en))) -> ex = ex | BIT(w) :: else fi; gk = 0 }
			fi;
			next_waiter()
		}
	:: d_step { w <= V && HOLDS(p, w, HAS(ex, w)) && HAS(left, w) ->
#ifdef LEAVES_EARLY
			delete_rows(p, OF(w));
#endif
			next_waiter()
		}
	:: atomic { w <= V && HOLDS(p, w, HAS(ex, w)) && !HAS(left, w) ->
#ifdef CLOSES_EARLY
			if :: HAS(cl, w) -> d_step { delete_rows(p, BIT(W_OPEN)) } :: else fi;
#endif
			if
			:: HAS(ca, w) ->
				d_step {
					take_ticket(p, w - W, CANCELLED);
					if
					:: tdel[w - W] == p && tnew[w - W] == CANCELLED ->
#ifndef NO_CASCADE
						en = en | BIT(w); bad = bad | BIT(w);
#endif
						left = left | BIT(w); stable = 0
					:: else
					fi;
					ca = ca & (255 - BIT(w))
				}
			:: else
			fi
#ifndef JOIN_NOT_CHECKED
			; if :: HAS(jo, w) && !HAS(st, w - W) -> goto undo :: else fi
#endif
		};
		d_step {
			if
			:: !HAS(ex, w) LOOKS_AGAIN ->
#ifdef LOOK_FIRST
				gk = (HAS(done, w) -> OF(w) : 0);
#elif defined(LOOK_MVCC)
				gk = 0; gi = 0;
				do
				:: gi < NR -> if :: SEES_ROW(p, gi) -> gk = gk | BIT(gi) :: else fi; gi++
				:: else -> break
				od;
				gi = 0;
#else
				look(p);
#endif
				if
				:: !(gk & OF(w)) -> ex = ex | BIT(w);
#if !defined(NO_SECOND_LOOK) && !defined(SECOND_LOOK_SHARED)
					if :: !HOLDS(p, w, 1) -> stable = 0 :: else fi
#endif
				:: else ->
#ifdef LOOKS_NOT_REPEATED
					done = done | BIT(w)
#endif
				fi;
				gk = 0
			:: else
			fi;
			next_waiter()
		}
	od;
	if
	:: atomic { stable -> stable = 0 }
	:: else -> goto more
	fi;

	/* let_all_go */
	if
	:: left != 0 || cl != 0 ->
		d_step { snap(p) };
		d_step {
			if :: HAS(cl, W) -> delete_rows(p, BIT(W_OPEN)) :: else fi;
			if :: HAS(left, W) -> delete_rows(p, OF(W)) :: else fi;
			if :: HAS(left, V) -> delete_rows(p, OF(V)) :: else fi
		}
	:: else
	fi;
	if
	:: d_step { snap(p); w = W; next_to_go() }
	fi;
	do
	:: atomic { w > V -> w = 0; goto finish }
	:: w <= V ->
#ifdef TICKET_WAITED_FOR
		if
		:: HAS(wa & ex, w) && !HAS(left, w) && !(sr & OF(w)) && HAS(st, w - W) -> tdel[w - W] == 0 || tdel[w - W] == p
		:: else
		fi;
#endif
		d_step {
#ifdef SECOND_LOOK_DIRTY
			look(p); sr = gk; gk = 0;
#endif
#ifdef NO_SECOND_LOOK
			sr = 0;
#endif
			if
			:: HAS(wa & ex, w) && !HAS(left, w) && !(sr & OF(w)) ->
#ifdef LOOKS_AT_TICKET
				if :: HAS(st, w - W) && tdel[w - W] != p -> wst[w - W] = GONE :: else fi
#else
				take_ticket(p, w - W, GONE)
#endif
			:: else
			fi;
			w++; next_to_go()
		}
	od;

finish:
#ifdef STRIPES_EARLY
	if
	:: d_step { give_stripes_back(p) }
	fi;
#endif
#ifdef ASKS_EARLY
	if
	:: d_step { if :: asks -> sweep = 1; asks = 0 :: else fi }
	fi;
#endif
	if
	:: d_step { ab > 0 -> ab--; rollback(p) };
		d_step { ending = ending - counted; counted = 0; asks = 0 };
		goto gone
	:: d_step { commit(p) }
	fi;
	d_step { ending = ending - counted; counted = 0; if :: asks SWEEPS_AGAIN -> sweep = 1 :: else fi; asks = 0 };
	d_step { give_stripes_back(p); reset() };
	if
	:: p == SW -> goto again
	:: else -> goto over
	fi;

undo:
	if
	:: d_step { rollback(p) }
	fi;
gone:
	if
	:: d_step { give_stripes_back(p); reset(); if :: p == SW -> sweep = 1 :: else fi }
	fi;
	if
	:: p == T1 || p == T2 || p == SW -> goto again	/* it tries again */
	:: else
	fi;
over:
	if
	:: d_step { nfin++; if :: p == A1 && jst[D2] == NOT_YET -> no_member = 1 :: else fi }
	fi;
quit:
	skip
}

#ifdef DEAD
proctype Redriver()
{
	d_step { jst[D1] = LIVE };
	nfin++
}
#endif

/* When all is over: who is held back by nothing has been let go, and nobody waits for what will not come. */
inline check_end()
{
	gi = 0;
	do
	:: gi < 2 ->
#ifdef POLICY
		if
		:: (HAS(need[gi], D1) && jst[D1] == DIED) || (HAS(need[gi], D2) && jst[D2] == DIED) || (gi == 1 && wst[0] == CANCELLED) ->
			assert(LOST || wst[gi] == CANCELLED)
		:: else
		fi;
#endif
		assert(LOST || !(wst[gi] == PENDING && (!HAS(need[gi], D1) || jst[D1] == DONE) && (!HAS(need[gi], D2) || jst[D2] == DONE) &&
			(!HAS(need[gi], W) || closed) && !HAS(need[gi], V)));
		assert(ORPHAN || !(wst[gi] != PENDING && (there & OF(gi + W))));
		gi++
	:: else -> break
	od;
	gi = 0;
	assert(ORPHAN || !(jst[D1] == DONE && (there & 9)));
	assert(ORPHAN || !(jst[D2] == DONE && (there & 2)))
}

init
{
	atomic {
		jst[D1] = LIVE;
#if defined(FLAG_UNKNOWN)
		watched = UNKNOWN;
#elif defined(FLAG)
		watched = NOT;
#endif
#ifdef FIN
		jst[D2] = LIVE;
		there = BIT(W_D1) | BIT(W_D2); need[0] = BIT(D1) | BIT(D2); wst[0] = PENDING;
#ifdef V_WAITS
		there = there | BIT(V_D1); need[1] = BIT(D1); wst[1] = PENDING;
#endif
#ifdef POLICY
		there = there | BIT(V_W); need[1] = BIT(V); wst[1] = PENDING;
#endif
		run Tx(T1); run Tx(T2);
#endif
#ifdef ADD
		need[0] = BIT(D1); need[1] = BIT(D1);
#ifdef DEAD
		jst[D1] = DIED; run Redriver();
#else
		run Tx(A2);
#endif
		run Tx(A1); run Tx(T1);
#endif
#ifdef BATCH
		there = BIT(W_D1); need[0] = BIT(D1); wst[0] = PENDING;
#ifndef CLOSED
		there = there | BIT(W_OPEN); need[0] = need[0] | BIT(W);
		run Tx(CL);
#endif
#ifdef MEMBER_CLOSES
		there = there | BIT(V_D1); need[1] = BIT(D1); wst[1] = PENDING;
#endif
		run Tx(T1); run Tx(A1);
#ifndef STAYS
		run Tx(T2);
#endif
#endif
#ifdef HAND
		run Tx(RE);
#endif
#ifdef SWEEP
		run Tx(SW);
#else
		swept = 1;
#endif
	};
	atomic { nfin == NTX && swept -> d_step { check_end() } }
}
