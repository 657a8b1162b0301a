#pragma once
// A library whose calls are as deep as is asked for.
//
// Purpose: built once with frame pointers and once without; stacks are taken from its depth. It is
// a library of its own because frames of the program that takes them count as the tracer's. Thread
// rule: any thread. Failure rule: none.
#ifdef __cplusplus
extern "C" {
#endif

// Calls body(argument) about `depth` calls down. Built under two names.
int StepagentCallDepth(int depth, void (*body)(void*), void* argument);
int StepagentCallDepthWithout(int depth, void (*body)(void*), void* argument);

#ifdef __cplusplus
}
#endif
