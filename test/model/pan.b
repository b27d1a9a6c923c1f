	switch (t->back) {
	default: Uerror("bad return move");
	case  0: goto R999; /* nothing to undo */

		 /* PROC Worker */
;
		
	case 3: // STATE 1
		goto R999;
;
		;
			case 5: // STATE 23
		sv_restor();
		goto R999;
	case 6: // STATE 26
		sv_restor();
		goto R999;
	case 7: // STATE 35
		sv_restor();
		goto R999;
	case 8: // STATE 56
		sv_restor();
		goto R999;
	case 9: // STATE 87
		sv_restor();
		goto R999;

	case 10: // STATE 98
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC Producer1 */
	case 11: // STATE 97
		sv_restor();
		goto R999;

	case 12: // STATE 99
		;
		now.stripe = trpt->bup.oval;
		;
		goto R999;
	case 13: // STATE 103
		sv_restor();
		goto R999;
	case 14: // STATE 200
		sv_restor();
		goto R999;
	case 15: // STATE 385
		sv_restor();
		goto R999;
	case 16: // STATE 392
		sv_restor();
		goto R999;

	case 17: // STATE 398
		;
		((P1 *)_this)->z = trpt->bup.ovals[1];
		((P1 *)_this)->b = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 18: // STATE 400
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC Producer0 */
	case 19: // STATE 97
		sv_restor();
		goto R999;

	case 20: // STATE 99
		;
		now.stripe = trpt->bup.oval;
		;
		goto R999;
	case 21: // STATE 103
		sv_restor();
		goto R999;
	case 22: // STATE 200
		sv_restor();
		goto R999;
	case 23: // STATE 385
		sv_restor();
		goto R999;
	case 24: // STATE 392
		sv_restor();
		goto R999;

	case 25: // STATE 398
		;
		((P0 *)_this)->z = trpt->bup.ovals[1];
		((P0 *)_this)->b = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 26: // STATE 400
		;
		p_restor(II);
		;
		;
		goto R999;
	}

