"""Apps of the delegate: tasks in the shape of MediaPipe's, decoders, live apps, batches and Ray.

Its version is 0.x: public names, which the pages of the documentation show, may change.
"""

__version__ = "0.1.0"
