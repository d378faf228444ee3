# The machine code of gles_delegate/litert/plugin.py for aarch64; see the offsets there.
#   as -o code.o aarch64.s && objcopy -O binary -j .text code.o code
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
        stp     x29, x30, [sp, -64]!
        mov     x29, sp
        stp     x19, x20, [sp, 16]
        stp     x21, x22, [sp, 32]
        str     x23, [sp, 48]
        mov     x19, x0                 // keys
        mov     x20, x1                 // values
        mov     w21, w2                 // their number
        mov     x22, x3                 // report
        ldr     x9, start + IS_INITIALIZED
        cbz     x9, 1f
        blr     x9
        cbz     w0, 1f
        ldr     x9, start + ENSURE
        blr     x9
        mov     w23, w0                 // the state of the GIL
        adr     x0, start + MODULE
        ldr     x9, start + IMPORT
        blr     x9
        cbz     x0, 2f
        adr     x1, start + NAME_CREATE
        adr     x2, start + FORMAT_CREATE
        mov     x3, x19
        mov     x4, x20
        mov     w5, w21
        mov     x6, x22
        ldr     x9, start + CALL_METHOD
        blr     x9
        cbz     x0, 2f
        mov     x19, x0
        ldr     x9, start + AS_POINTER
        blr     x9
        mov     x20, x0                 // the delegate
        mov     x0, x19
        ldr     x9, start + DECREF
        blr     x9
3:      mov     w0, w23
        ldr     x9, start + RELEASE
        blr     x9
        mov     x0, x20
4:      ldr     x23, [sp, 48]
        ldp     x21, x22, [sp, 32]
        ldp     x19, x20, [sp, 16]
        ldp     x29, x30, [sp], 64
        ret
1:      adr     x0, start + NO_PYTHON
        cbz     x22, 5f
        blr     x22
5:      mov     x0, xzr
        b       4b
2:      ldr     x9, start + PRINT
        blr     x9
        mov     x20, xzr
        adr     x0, start + NO_PACKAGE
        cbz     x22, 3b
        blr     x22
        b       3b
        .org    0x100
destroy: # (delegate)
        stp     x29, x30, [sp, -32]!
        mov     x29, sp
        stp     x19, x20, [sp, 16]
        mov     x19, x0
        ldr     x9, start + IS_INITIALIZED
        cbz     x9, 6f
        blr     x9
        cbz     w0, 6f
        ldr     x9, start + ENSURE
        blr     x9
        mov     w20, w0
        adr     x0, start + MODULE
        ldr     x9, start + IMPORT
        blr     x9
        cbz     x0, 7f
        adr     x1, start + NAME_DESTROY
        adr     x2, start + FORMAT_DESTROY
        mov     x3, x19
        ldr     x9, start + CALL_METHOD
        blr     x9
        cbz     x0, 7f
        ldr     x9, start + DECREF
        blr     x9
        b       8f
7:      ldr     x9, start + PRINT
        blr     x9
8:      mov     w0, w20
        ldr     x9, start + RELEASE
        blr     x9
6:      ldp     x19, x20, [sp, 16]
        ldp     x29, x30, [sp], 32
        ret
