// A program that loads the library of `gles-delegate library`. With STUBS it has a Python of nothing
// but the functions that the library calls, and writes what they get; IMPORTS is 0 if none succeeds.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef STUBS
static int depth;
int Py_IsInitialized(void) { return STUBS; }
int PyGILState_Ensure(void) {
    depth++;
    return 7;
}
void PyGILState_Release(int state) { depth -= state == 7; }
void *PyImport_ImportModule(const char *name) {
    printf("import %s\n", name);
    return IMPORTS ? (void *)0x1234 : 0;
}
void *PyObject_CallMethod(void *object, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("call %p %s", object, name);
    for (; *format; format++) {
        if (*format == 'K') {
            printf(" %llx", va_arg(arguments, unsigned long long));
        } else {
            printf(" %d", va_arg(arguments, int));
        }
    }
    printf("\n");
    va_end(arguments);
    return (void *)0x5678;
}
void *PyLong_AsVoidPtr(void *object) { return (char *)object + 1; }
void Py_DecRef(void *object) { printf("release %p\n", object); }
void PyErr_Print(void) { printf("error\n"); }
#endif

static void report(const char *text) { printf("report %s\n", text); }

int main(int count, char **names) {
    void *library = dlopen(names[count - 1], RTLD_NOW);
    if (!library) {
        puts(dlerror());
        return 1;
    }
    void *(*create)(void *, void *, int, void *) = dlsym(library, "tflite_plugin_create_delegate");
    void (*destroy)(void *) = dlsym(library, "tflite_plugin_destroy_delegate");
    printf("delegate %p\n", create((void *)0xaaaa1111bbbb, (void *)0xcccc2222dddd, 3, report));
    printf("delegate %p\n", create((void *)1, (void *)2, -4, 0));
    destroy((void *)0x99990000aaaa);
#ifdef STUBS
    printf("depth %d\n", depth);
#endif
    return 0;
}
