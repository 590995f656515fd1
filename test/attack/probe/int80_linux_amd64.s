#include "textflag.h"

// func int80(number uintptr) int
TEXT ·int80(SB), NOSPLIT, $0-16
	MOVQ number+0(FP), AX
	INT  $0x80
	MOVLQSX AX, AX
	MOVQ AX, ret+8(FP)
	RET
