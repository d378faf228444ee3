# The machine code of gles_delegate/litert/plugin.py for x86-64; see the offsets there.
#   as -o code.o x86_64.s && objcopy -O binary -j .text code.o code
# int PyGILState_Ensure() and the other functions are called through the table that the dynamic
# linker fills.
        .intel_syntax noprefix
        .equ    IS_INITIALIZED, 0x10000
        .equ    ENSURE, 0x10008
        .equ    RELEASE, 0x10010
        .equ    IMPORT, 0x10018
        .equ    CALL_METHOD, 0x10020
        .equ    AS_POINTER, 0x10028
        .equ    DECREF, 0x10030
        .equ    PRINT, 0x10038
        .equ    MODULE, 0x200
        .equ    NAME_CREATE, 0x240
        .equ    NAME_DESTROY, 0x250
        .equ    FORMAT_CREATE, 0x260
        .equ    FORMAT_DESTROY, 0x270
        .equ    NO_PYTHON, 0x280
        .equ    NO_PACKAGE, 0x300
        .text
start:
create: # (keys, values, count, report), returns the delegate or null
        push    rbx
        push    rbp
        push    r12
        push    r13
        push    r14
        sub     rsp, 16
        mov     r12, rdi                # keys
        mov     r13, rsi                # values
        mov     ebx, edx                # their number
        mov     rbp, rcx                # report
        mov     rax, [rip + start + IS_INITIALIZED]
        test    rax, rax
        jz      1f
        call    rax
        test    eax, eax
        jz      1f
        call    [rip + start + ENSURE]
        mov     r14d, eax               # the state of the GIL
        lea     rdi, [rip + start + MODULE]
        call    [rip + start + IMPORT]
        test    rax, rax
        jz      2f
        mov     rdi, rax
        lea     rsi, [rip + start + NAME_CREATE]
        lea     rdx, [rip + start + FORMAT_CREATE]
        mov     rcx, r12
        mov     r8, r13
        mov     r9d, ebx
        mov     [rsp], rbp
        xor     eax, eax
        call    [rip + start + CALL_METHOD]
        test    rax, rax
        jz      2f
        mov     r12, rax
        mov     rdi, rax
        call    [rip + start + AS_POINTER]
        mov     rbx, rax                # the delegate
        mov     rdi, r12
        call    [rip + start + DECREF]
3:      mov     edi, r14d
        call    [rip + start + RELEASE]
        mov     rax, rbx
4:      add     rsp, 16
        pop     r14
        pop     r13
        pop     r12
        pop     rbp
        pop     rbx
        ret
1:      lea     rdi, [rip + start + NO_PYTHON]
        test    rbp, rbp
        jz      5f
        call    rbp
5:      xor     eax, eax
        jmp     4b
2:      call    [rip + start + PRINT]
        xor     ebx, ebx
        lea     rdi, [rip + start + NO_PACKAGE]
        test    rbp, rbp
        jz      3b
        call    rbp
        jmp     3b
        .org    0x100
destroy:
        push    rbx
        push    rbp
        sub     rsp, 8
        mov     rbx, rdi
        mov     rax, [rip + start + IS_INITIALIZED]
        test    rax, rax
        jz      6f
        call    rax
        test    eax, eax
        jz      6f
        call    [rip + start + ENSURE]
        mov     ebp, eax
        lea     rdi, [rip + start + MODULE]
        call    [rip + start + IMPORT]
        test    rax, rax
        jz      7f
        mov     rdi, rax
        lea     rsi, [rip + start + NAME_DESTROY]
        lea     rdx, [rip + start + FORMAT_DESTROY]
        mov     rcx, rbx
        xor     eax, eax
        call    [rip + start + CALL_METHOD]
        test    rax, rax
        jz      7f
        mov     rdi, rax
        call    [rip + start + DECREF]
        jmp     8f
7:      call    [rip + start + PRINT]
8:      mov     edi, ebp
        call    [rip + start + RELEASE]
6:      add     rsp, 8
        pop     rbp
        pop     rbx
        ret
