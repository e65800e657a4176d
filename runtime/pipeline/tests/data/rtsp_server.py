#!/usr/bin/python3
"""An RTSP camera for tests: rtsp://me:hunter2@127.0.0.1:PORT/jpeg and, if there is an encoder, /h264; 320x240 at 30 fps, 75 %
colour bars. Prints its port. Needs python3-gi, gir1.2-gst-rtsp-server-1.0 and GStreamer's good plugins."""
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer

Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service(sys.argv[1] if len(sys.argv) > 1 else "0")
auth = GstRtspServer.RTSPAuth()
token = GstRtspServer.RTSPToken()
token.set_string("media.factory.role", "user")
auth.add_basic(GstRtspServer.RTSPAuth.make_basic("me", "hunter2"), token)
server.set_auth(auth)
SOURCE = "videotestsrc is-live=true pattern=smpte75 ! video/x-raw,format=RGB ! videoconvert ! video/x-raw,format=I420,width=320,height=240,framerate=30/1,colorimetry="
# JPEG means full range by definition.
STREAMS = {"jpeg": "1:4:7:1 ! jpegenc quality=95 ! rtpjpegpay name=pay0"}
if Gst.ElementFactory.find("x264enc"):
    STREAMS["h264"] = "bt601 ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=2000 key-int-max=15 ! rtph264pay name=pay0"
for name, encode in STREAMS.items():
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f"( {SOURCE}{encode} )")
    factory.set_shared(True)
    permissions = GstRtspServer.RTSPPermissions()
    permissions.add_permission_for_role("user", "media.factory.access", True)
    permissions.add_permission_for_role("user", "media.factory.construct", True)
    factory.set_permissions(permissions)
    server.get_mount_points().add_factory("/" + name, factory)
server.attach(None)
print(server.get_bound_port(), " ".join(STREAMS), flush=True)
GLib.MainLoop().run()
